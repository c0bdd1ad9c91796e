"""Users, roles and grants: what holds as soon as a call returns, and what is never mixed up."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from werkzeug.security import generate_password_hash

from mlflow_dynamodbstore.auth import users as users_module
from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Query, Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from tests.auth.stores import PASSWORD, in_workspace, open_auth_store
from tests.engines import moto_server
from tests.releases import has
from tests.stores import refused
from tests.table.fakes import FakeTime

LAG = "synchronous=NORMAL&index_lag=3600"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch):
    monkeypatch.setattr(
        users_module,
        "generate_password_hash",
        lambda text: generate_password_hash(text, "pbkdf2:sha256:1"),
    )


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as address:
        yield address


@pytest.fixture(params=["file", "endpoint"])
def store(request, tmp_path):
    """A store on a file whose global indexes show nothing for an hour, or on an endpoint."""
    if request.param == "file":
        return open_auth_store(tmp_path, LAG)
    address = request.getfixturevalue("endpoint")
    uri = f"dynamodb://{address}/auth-{tmp_path.name}"
    return DynamoDBAuthStore(uri, table=Table(open_engine(uri)))


@pytest.fixture
def lagging(tmp_path):
    return open_auth_store(tmp_path, LAG)


@pytest.fixture
def workspaces(monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")


def rows(store, user, workspace="default", types=("experiment", "registered_model", "scorer")):
    found = store.list_grants(user.id, workspace, types)
    return sorted((row.resource_type, row.resource_pattern, row.permission) for row in found)


def everything(store):
    table = store.table
    page, items = table.scan(Scan()), []
    items += page.items
    while page.cursor is not None:
        page = table.scan(Scan(cursor=page.cursor))
        items += page.items
    return items


def test_what_was_granted_for_a_thing_is_found_at_once_and_can_be_taken_away(store):
    ada, bob = (store.create_user(name, PASSWORD) for name in ("ada", "bob"))
    for user in (ada, bob):
        store.grant_user_permission(user.username, "experiment", "7", "EDIT")
        store.grant_user_permission(user.username, "experiment", "8", "READ")
    assert rows(store, ada) == [("experiment", "7", "EDIT"), ("experiment", "8", "READ")]
    store.delete_grants_for_resource("experiment", "7")
    assert rows(store, ada) == rows(store, bob) == [("experiment", "8", "READ")]


def test_a_revoked_permission_is_gone_from_remembered_answers(store):
    ada = store.create_user("ada", PASSWORD)
    store.grant_user_resource_permission("ada", "experiment", "7", "MANAGE")
    assert rows(store, ada)
    store.revoke_user_resource_permission("ada", "experiment", "7")
    assert rows(store, ada) == []


def test_two_stores_of_one_table_share_their_memory(lagging):
    other = DynamoDBAuthStore("", table=lagging.table)
    ada = lagging.create_user("ada", PASSWORD)
    lagging.grant_user_permission("ada", "experiment", "7", "READ")
    assert rows(lagging, ada)
    other.revoke_user_resource_permission("ada", "experiment", "7")
    assert rows(lagging, ada) == []


def test_a_change_made_by_another_process_holds_here_after_seconds(tmp_path):
    here, there = open_auth_store(tmp_path), open_auth_store(tmp_path)
    time = FakeTime()
    here.answers._clock = time
    ada = here.create_user("ada", PASSWORD)
    here.grant_user_permission("ada", "experiment", "7", "READ")
    assert rows(here, ada)
    there.revoke_user_resource_permission("ada", "experiment", "7")
    time.sleep(2)
    assert rows(here, ada) == []


def test_a_user_created_by_another_process_can_log_in_at_once(tmp_path):
    here, there = open_auth_store(tmp_path), open_auth_store(tmp_path)
    assert not here.authenticate_user("ada", PASSWORD)
    there.create_user("ada", PASSWORD)
    assert here.authenticate_user("ada", PASSWORD)
    there.update_user("ada", password="another password")
    assert here.authenticate_user("ada", "another password")


def test_a_remembered_check_reads_nothing_from_the_table(lagging, monkeypatch):
    ada = lagging.create_user("ada", PASSWORD)
    lagging.grant_user_permission("ada", "experiment", "7", "READ")

    def check():
        assert lagging.authenticate_user("ada", PASSWORD)
        assert lagging.get_user("ada").id == ada.id
        assert rows(lagging, ada)
        assert not lagging.is_workspace_admin(ada.id, "default")

    check()
    table = lagging.table
    for name in ("get", "get_many", "query", "items"):
        monkeypatch.setattr(table, name, None)
    check()


@pytest.mark.index_at_once
def test_the_index_of_the_schema_tells_who_may_use_an_experiment_or_a_model(tmp_path):
    store = open_auth_store(tmp_path)
    store.create_user("ada", PASSWORD)
    store.create_experiment_permission("7", "ada", "READ")
    store.create_registered_model_permission("iris", "ada", "EDIT")
    table = store.table
    for partition in ("EXPPERM#7", "RMPERM#iris"):
        (found,) = table.query(Query(partition, index="GSI4")).items
        assert found["PK"] == "USER#ada"


def test_a_permission_lies_where_the_schema_says(tmp_path):
    store = open_auth_store(tmp_path)
    store.create_user("ada", PASSWORD)
    store.create_experiment_permission("7", "ada", "READ")
    store.create_registered_model_permission("iris", "ada", "EDIT")
    table = store.table
    for sk, permission in (("U#PERM#7", "READ"), ("U#RPERM#iris", "EDIT")):
        item = table.get(Key("USER#ada", sk))
        assert item is not None
        assert item["permission"] == permission


NAMES = [
    "ada",
    "ada#U#PERM#7",
    "ada%23U%23PERM%237",
    "../ada",
    "ada/../bob",
    "USER#ada",
    "ADA",
    "ada\x00",
    "ada$",
    "*",
    "é" * 2000,
    "é" * 2001,
]


def test_no_name_reaches_what_another_has(lagging, monkeypatch):
    """Not even one that an earlier release took, such as the one with a NUL."""
    monkeypatch.setattr(users_module, "check_username", lambda _name: None)
    users = [lagging.create_user(name, PASSWORD) for name in NAMES]
    for number, user in enumerate(users):
        lagging.create_experiment_permission(str(number), user.username, "MANAGE")
        lagging.create_registered_model_permission(user.username, user.username, "READ")
    for number, user in enumerate(users):
        assert lagging.get_user(user.username).id == user.id
        assert rows(lagging, user) == [
            ("experiment", str(number), "MANAGE"),
            ("registered_model", user.username, "READ"),
        ]
    assert [user.username for user in lagging.list_users()] == NAMES
    lagging.delete_user(NAMES[0])
    assert [user.username for user in lagging.list_users()] == NAMES[1:]
    assert all(len(rows(lagging, user)) == 2 for user in users[1:])


@pytest.mark.parametrize("name", ["\ud800", "", None, 7])
def test_what_cannot_be_a_name_is_nobodys(lagging, name):
    assert not lagging.has_user(name)
    assert not lagging.authenticate_user(name, PASSWORD)
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        lagging.get_user(name)
    with pytest.raises(MlflowException):
        lagging.create_user(name, PASSWORD)


@pytest.mark.parametrize("number", [0, -1, 10**10, 2**70, True, "1", None])
def test_what_cannot_be_a_number_is_no_role_and_no_user(lagging, number):
    lagging.create_user("ada", PASSWORD)
    lagging.create_role("r", "default")
    for call in (lagging.get_role, lagging.get_role_permission, lagging.list_role_users):
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            call(number)
    assert lagging.list_user_roles(number) == []
    assert lagging.list_grants(number, "default", ["experiment"]) == []


def test_the_same_thing_in_two_workspaces_is_two_things(store, workspaces):
    ada = store.create_user("ada", PASSWORD)
    for workspace, permission in (("default", "READ"), ("team", "EDIT"), ("tea", "MANAGE")):
        with in_workspace(workspace):
            store.grant_user_permission("ada", "registered_model", "iris", permission)
            store.grant_user_permission("ada", "experiment", "*", permission)
    assert rows(store, ada, "team") == [
        ("experiment", "*", "EDIT"),
        ("registered_model", "iris", "EDIT"),
    ]
    with in_workspace("team"):
        store.delete_grants_for_resource("registered_model", "iris", workspace_scoped=True)
    assert rows(store, ada, "team") == [("experiment", "*", "EDIT")]
    assert ("registered_model", "iris", "READ") in rows(store, ada, "default")
    assert ("registered_model", "iris", "MANAGE") in rows(store, ada, "tea")


def test_a_renamed_thing_takes_its_grants_along_and_leaves_none(store):
    ada = store.create_user("ada", PASSWORD)
    store.create_registered_model_permission("iris", "ada", "EDIT")
    store.rename_grants_for_resource("registered_model", "iris", "lily")
    assert rows(store, ada) == [("registered_model", "lily", "EDIT")]
    store.delete_grants_for_resource("registered_model", "lily")
    assert rows(store, ada) == []


def test_who_takes_the_name_of_a_deleted_user_has_nothing_of_theirs(store):
    ada = store.create_user("ada", PASSWORD, is_admin=True)
    role = store.create_role("editors", "default")
    store.add_role_permission(role.id, "experiment", "*", "EDIT")
    store.assign_role_to_user(ada.id, role.id)
    store.grant_user_permission("ada", "experiment", "7", "MANAGE")
    store.delete_user("ada")
    assert store.list_role_users(role.id) == []
    second = store.create_user("ada", "another password")
    assert second.id != ada.id
    assert rows(store, second) == rows(store, ada) == []
    assert not store.authenticate_user("ada", PASSWORD)
    assert store.list_user_roles(second.id) == []


def test_what_an_interrupted_deletion_left_behind_allows_nobody_anything(lagging):
    """Grants and roles of the former user of a name have other numbers, and are ignored."""
    ada = lagging.create_user("ada", PASSWORD)
    role = lagging.create_role("editors", "default")
    lagging.assign_role_to_user(ada.id, role.id)
    lagging.grant_user_permission("ada", "experiment", "7", "MANAGE")
    table = lagging.table
    left = [
        item for item in everything(lagging) if str(item["SK"]).startswith(("U#PERM", "U#ROLE"))
    ]
    assert len(left) == 3
    lagging.delete_user("ada")
    second = lagging.create_user("ada", PASSWORD)
    for item in left:
        table.put(item)
    lagging.answers.clear()
    assert rows(lagging, second) == []
    assert lagging.list_experiment_permissions("ada") == []
    assert lagging.list_user_roles(second.id) == []
    lagging.create_experiment_permission("7", "ada", "READ")
    assert rows(lagging, second) == [("experiment", "7", "READ")]
    lagging.assign_role_to_user(second.id, role.id)
    assert "editors" in {held.name for held in lagging.list_user_roles(second.id)}


def test_a_deleted_user_leaves_nothing_in_the_table(lagging):
    before = {(item["PK"], item["SK"]) for item in everything(lagging)}
    ada = lagging.create_user("ada", PASSWORD)
    for kind, thing in (("experiment", "7"), ("scorer", "7/x"), ("registered_model", "iris")):
        lagging.grant_user_permission("ada", kind, thing, "EDIT")
    lagging.set_workspace_permission("team", "ada", "USE")
    assert ada.id
    lagging.delete_user("ada")
    left = {(i["PK"], i["SK"]) for i in everything(lagging)} - before
    assert {pk for pk, _ in left} == {"CONFIG"}  # counters and the list of workspaces
    assert not [sk for _, sk in left if str(sk).startswith("UID#")]


def test_a_deleted_role_is_gone_for_all_who_had_it(store):
    users = [store.create_user(name, PASSWORD) for name in ("ada", "bob")]
    role = store.create_role("editors", "default")
    store.add_role_permission(role.id, "experiment", "*", "EDIT")
    for user in users:
        store.assign_role_to_user(user.id, role.id)
        assert rows(store, user) == [("experiment", "*", "EDIT")]
    store.delete_role(role.id)
    assert [rows(store, user) for user in users] == [[], []]
    assert store.create_role("editors", "default").id != role.id


def test_a_role_without_its_own_item_allows_nobody_anything(lagging):
    ada = lagging.create_user("ada", PASSWORD)
    role = lagging.create_role("editors", "default")
    lagging.add_role_permission(role.id, "experiment", "*", "EDIT")
    lagging.assign_role_to_user(ada.id, role.id)
    lagging.table.delete(grant_keys.role_key(role.id), condition=Attr("PK").exists())
    lagging.answers.clear()
    assert rows(lagging, ada) == []
    assert lagging.list_user_roles(ada.id) == []


def test_a_role_can_be_renamed_and_its_old_name_taken(store):
    one = store.create_role("one", "default")
    store.update_role(one.id, name="two", description="d")
    other = store.create_role("one", "default")
    with refused("RESOURCE_ALREADY_EXISTS", "name=two already exists"):
        store.update_role(other.id, name="two")
    assert store.get_role_by_name("default", "two").id == one.id
    assert [role.name for role in store.list_roles()] == ["two", "one"]


def test_a_user_is_granted_to_by_many_at_once(lagging):
    from concurrent.futures import ThreadPoolExecutor

    ada = lagging.create_user("ada", PASSWORD)
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(lagging.grant_user_permission, "ada", "experiment", str(n % 4), "EDIT")
            for n in range(16)
        ]
        for call in calls:
            call.result()
    assert rows(lagging, ada) == [("experiment", str(n), "EDIT") for n in range(4)]
    (own,) = lagging.list_user_roles(ada.id)
    numbers = [permission.id for permission in own.permissions]
    assert len(numbers) == len(set(numbers)) == 4


def test_a_denial_in_the_table_lets_nobody_in_on_any_release(lagging):
    """A release that does not know denials would take one for its default permission."""
    user_id = lagging.create_user("ada", PASSWORD).id
    lagging.grant_user_permission("ada", "experiment", "1", "READ")
    part = lagging.resource_permissions
    ada = part.reader.existing_user("ada")
    grant = part.reader.find_own_grant(ada, "default", "experiment", "1")
    part.grants.set_permission(grant, "DENY")

    def permission():
        return lagging.get_role_permission_for_resource(user_id, "experiment", "1", "default")

    if has("denials"):
        assert (permission().name, permission().can_read) == ("DENY", False)
        return
    for call in (
        permission,
        lambda: lagging.list_role_grants_for_user_in_workspace(user_id, "default", "experiment"),
    ):
        with refused("PERMISSION_DENIED", "does not know the permission DENY"):
            call()
