"""Secrets: how they are stored, and what deleting one does to model definitions."""

from __future__ import annotations

import pytest
from mlflow.utils.crypto import KEKManager

from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.mlflow_compat.crypto import decrypt_secret
from tests.gateway.making import a_definition, a_secret
from tests.stores import everything_in, refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
MANY = 120  # more than a transaction holds


def test_nothing_in_the_table_shows_a_secret(store):
    a_secret(store, value="sk-do-not-show-me")
    assert "do-not-show" not in repr(everything_in(store.table))


def test_mlflow_itself_can_decrypt_what_is_stored(store):
    secret_id = a_secret(store, "key", "sk-1")
    item = store.table.get(gateway_keys.secret_key(secret_id))
    assert decrypt_secret(
        item["encrypted_value"], item["wrapped_dek"], KEKManager(), secret_id, "key"
    ) == {"api_key": "sk-1"}


def test_a_new_value_is_what_the_server_reads_and_the_old_one_is_gone(store):
    secret_id = a_secret(store, value="sk-old")
    before = store.get_secret_info(secret_id=secret_id)
    store.update_gateway_secret(secret_id, {"api_key": "sk-brand-new-one"}, {"region": "eu"}, "ada")
    assert store._get_decrypted_secret(secret_id) == {"api_key": "sk-brand-new-one"}
    after = store.get_secret_info(secret_name="key")
    assert after.auth_config == {"region": "eu"}
    assert after.last_updated_by == "ada"
    assert after.last_updated_at > before.last_updated_at
    assert after.masked_values != before.masked_values
    assert store.update_gateway_secret(secret_id, auth_config={}).auth_config is None


def test_a_secret_of_another_passphrase_is_refused_in_words(store, monkeypatch):
    secret_id = a_secret(store)
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "another passphrase")
    with refused("INVALID_PARAMETER_VALUE", "Failed to decrypt"):
        store._get_decrypted_secret(secret_id)


def test_a_name_is_taken_once_and_free_again_when_its_secret_is_deleted(store):
    first = a_secret(store, "key")
    with refused("RESOURCE_ALREADY_EXISTS", "Secret with name 'key' already exists"):
        a_secret(store, "key")
    store.delete_gateway_secret(first)
    with refused(MISSING, r"GatewaySecret not found \(secret_name='key'\)"):
        store.get_secret_info(secret_name="key")
    assert a_secret(store, "key") != first


def test_secrets_are_listed_in_the_order_they_were_made(store):
    made = [a_secret(store, name) for name in ("b", "a", "c")]
    assert [info.secret_id for info in store.list_secret_infos("openai")] == made
    assert store.list_secret_infos("cohere") == []


@pytest.mark.parametrize("count", [1, MANY])
def test_definitions_lose_a_deleted_secret_and_stay(store, count):
    secret_id = a_secret(store)
    kept = a_definition(store, "with another")
    for n in range(count):
        a_definition(store, f"m{n}", secret_id)
    store.delete_gateway_secret(secret_id)
    found = {one.name: one for one in store.list_gateway_model_definitions()}
    assert len(found) == count + 1
    assert [found[f"m{n}"].secret_id for n in range(count)] == [None] * count
    assert found["m0"].secret_name is None
    assert store.get_gateway_model_definition(kept).secret_name == "key of with another"
    assert store.list_gateway_model_definitions(secret_id=secret_id) == []
