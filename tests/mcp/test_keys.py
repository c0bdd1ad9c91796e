"""Keys of servers do not collide and tell their owner, and upkeep keeps what has one."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import item_kinds
from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.keys.strategies import any_texts
from tests.mcp.making import FILES, MAIL, add, keys_of, noise
from tests.stores import everything_in

MAKERS = (
    (lambda: mcp_keys.SERVER_META, 0),
    (mcp_keys.server_version, 2),
    (mcp_keys.server_version_tag, 3),
    (mcp_keys.server_tag, 1),
    (mcp_keys.server_endpoint, 1),
)
CALLS = st.sampled_from(MAKERS).flatmap(
    lambda maker: st.tuples(st.just(maker[0]), st.tuples(*[any_texts] * maker[1]))
)


@given(CALLS, CALLS)
def test_two_different_things_of_a_server_have_different_keys(one, other):
    assume(one != other)
    assert one[0](*one[1]) != other[0](*other[1])


@given(any_texts, any_texts, any_texts, any_texts)
def test_two_servers_have_different_partitions(name, workspace, other, other_workspace):
    assume((name, workspace) != (other, other_workspace))
    assert mcp_keys.server_pk(name, workspace) != mcp_keys.server_pk(other, other_workspace)


@given(any_texts, any_texts, CALLS)
def test_versions_from_a_precedence_on_are_versions(bound, version, other):
    for descending in (False, True):
        found = mcp_keys.server_versions_from(bound, descending=descending)
        assert mcp_keys.server_version(bound, version) in found
        if other[0] not in (mcp_keys.server_version, mcp_keys.server_version_tag):
            assert other[0](*other[1]) not in found


def fill(store) -> None:
    add(store, "1.0.0", title=noise(300_000))
    store.set_mcp_server_version_tag(FILES, "1.0.0", "long", "x" * 3000)
    store.set_mcp_server_tag(FILES, "long", "x" * 3000)
    store.create_mcp_access_endpoint(FILES, "https://x", server_alias="latest")
    add(store, name=MAIL)


def cleanup(store, time) -> Cleanup:
    return Cleanup(store.table, sleep=time.sleep)


def test_every_item_of_a_server_is_known_and_names_its_owners(store):
    fill(store)
    there = {(item["PK"], item["SK"]) for item in everything_in(store.table)}
    for item in everything_in(store.table):
        what = item_kinds.describe_item(item)
        assert what.kind != item_kinds.UNKNOWN
        assert {*what.owners} <= there


def test_upkeep_leaves_what_is_alive_and_takes_what_a_lost_server_left(store, time):
    fill(store)
    before = keys_of(store.table)
    cleanup(store, time).run()
    assert keys_of(store.table) == before
    store.table.write([Delete(mcp_keys.server_key(FILES))])
    cleanup(store, time).run()
    left = keys_of(store.table)
    assert {pk for pk, _ in left} == {mcp_keys.server_pk(MAIL), "WORKSPACE#default"}
    assert [sk for _, sk in left if sk.startswith("MCP")] == [f"MCPNAME#{MAIL}"]


def test_upkeep_takes_parts_that_no_version_names(store, time):
    fill(store)
    before = keys_of(store.table)
    (part,) = [item for item in everything_in(store.table) if "#PART#" in item["SK"]][:1]
    generation = part["SK"].split("#")[-2]
    stray = {**part, "SK": part["SK"].replace(generation, "0" * 12)}
    store.table.write([Put(stray)])
    cleanup(store, time).run()
    assert store.table.get(Key(stray["PK"], stray["SK"])) is None
    assert keys_of(store.table) == before
