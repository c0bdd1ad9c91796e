"""Versions sort by precedence, the latest is always right, and no version is used twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.semver_utils import compare_semver, parse_semver

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.keys.base import value_part
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.table.contract import MAX_SK_BYTES
from tests.mcp.making import (
    ACTIVE,
    DELETED,
    DEPRECATED,
    DRAFT,
    FILES,
    add,
    noise,
    sort_keys_of,
)
from tests.stores import refused

NUMBERS = st.integers(0, 2**31 - 1) | st.integers(0, 20)
IDENTIFIER = st.from_regex(
    r"(0|[1-9][0-9]{0,3}|[0-9]{0,2}[A-Za-z-][0-9A-Za-z-]{0,4})", fullmatch=True
)
VERSIONS = st.builds(
    lambda core, prerelease, build: (
        ".".join(map(str, core))
        + ("-" + ".".join(prerelease) if prerelease else "")
        + ("+" + ".".join(build) if build else "")
    ),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.lists(IDENTIFIER, max_size=4),
    st.lists(IDENTIFIER, max_size=2),
)


def compared(one: str, other: str) -> int:
    """Negative, zero or positive, as MLflow compares."""
    return int(compare_semver(parse_semver(one), parse_semver(other)))


@given(VERSIONS, VERSIONS)
def test_keys_of_versions_sort_as_semantic_versions_do(one, other):
    ours = [mcp_keys.server_version(precedence(v), v) for v in (one, other)]
    if compared(one, other) < 0:
        assert ours[0].encode() < ours[1].encode()
    elif compared(one, other) == 0:
        assert precedence(one) == precedence(other)


@pytest.mark.parametrize("longest", [".".join("a" * 61), "-" * 122, ".".join("0" * 61), "9" * 122])
def test_the_longest_version_is_whole_in_its_key(longest):
    version = f"0.0.0-{longest}"
    sk = mcp_keys.server_version_tag(precedence(version), version, "\U0001f600" * 250)
    assert mcp_keys.server_version_of(sk) == (precedence(version), version)
    assert len(value_part(sk, "0" * 12, 0).encode()) <= MAX_SK_BYTES


def test_the_latest_is_the_highest_active_one_or_else_the_highest(store, other):
    def latest() -> Any:
        return other.get_mcp_server(FILES).latest_version

    add(store, "1.0.0")
    add(store, "1.10.0-rc.1")
    assert latest() == "1.10.0-rc.1"
    add(store, "1.2.0", status=ACTIVE)
    assert latest() == "1.2.0"
    store.update_mcp_server_version(FILES, "1.0.0", status=ACTIVE)
    assert latest() == "1.2.0"
    store.update_mcp_server_version(FILES, "1.2.0", status=DEPRECATED)
    assert latest() == "1.0.0"
    store.update_mcp_server_version(FILES, "1.0.0", status=DRAFT)
    assert latest() == "1.10.0-rc.1"
    for version in ("1.10.0-rc.1", "1.2.0", "1.0.0"):
        store.delete_mcp_server_version(FILES, version)
    assert latest() is None
    with refused("RESOURCE_DOES_NOT_EXIST", "No resolved latest version"):
        other.get_latest_mcp_server_version(FILES)


def test_another_becomes_the_latest_though_many_versions_lie_between(store):
    """The search for it goes through several pages, and skips deleted versions."""
    add(store, "0.0.1", status=ACTIVE)
    for n in range(120):
        add(store, f"1.{n}.0")
    store.delete_mcp_server_version(FILES, "1.119.0")
    add(store, "2.0.0", status=ACTIVE)
    store.update_mcp_server_version(FILES, "2.0.0", status=DEPRECATED)
    assert store.get_latest_mcp_server_version(FILES).version == "0.0.1"
    store.update_mcp_server_version(FILES, "0.0.1", status=DEPRECATED)
    store.delete_mcp_server_version(FILES, "2.0.0")
    assert store.get_latest_mcp_server_version(FILES).version == "1.118.0"


@pytest.mark.parametrize("how", ["delete", "update"])
def test_a_deleted_number_is_not_used_again_and_keeps_nothing_else(store, other, how):
    add(store, "1.0.0", title=noise(300_000))
    store.set_mcp_server_version_tag(FILES, "1.0.0", "long", "x" * 3000)
    if how == "delete":
        store.delete_mcp_server_version(FILES, "1.0.0")
    else:
        store.update_mcp_server_version(FILES, "1.0.0", status=DELETED)
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        add(other, "1.0.0", title=noise(300_000))
    version = mcp_keys.server_version(precedence("1.0.0"), "1.0.0")
    assert sort_keys_of(store.table) == ["S#META", version, f"MCPNAME#{FILES}"]


def test_an_alias_to_a_version_deleted_by_its_status_leads_nowhere(store):
    add(store, "1.0.0")
    add(store, "2.0.0")
    store.set_mcp_server_alias(FILES, "prod", "1.0.0")
    by_alias = store.create_mcp_access_endpoint(FILES, "https://x", server_alias="prod")
    store.update_mcp_server_version(FILES, "1.0.0", status=DELETED)
    assert store.search_mcp_access_endpoints() == []
    assert store.search_mcp_servers("has_access_endpoints = 'true'") == []
    with refused("INVALID_PARAMETER_VALUE", "points to deleted version '1.0.0'"):
        store.create_mcp_access_endpoint(FILES, "https://x", server_alias="prod")
    store.set_mcp_server_alias(FILES, "prod", "2.0.0")
    found = store.get_mcp_access_endpoint(FILES, by_alias.id)
    assert found.resolved_version.version == "2.0.0"


# --- long contents ------------------------------------------------------------------------------


def test_contents_may_be_as_long_as_they_like(store, other):
    text = noise(1_500_000)
    created = add(store, "1.0.0", title=text, description="short")
    assert created.server_json["title"] == text
    assert other.get_mcp_server_version(FILES, "1.0.0") == created
    (found,) = other.search_mcp_server_versions(FILES)
    assert found == created
    assert other.get_mcp_server(FILES).description == "short"


def test_a_server_shows_a_long_description_of_its_latest_version(store, other):
    add(store, "1.0.0", description="d" * 5000)
    assert other.get_mcp_server(FILES).description == "d" * 5000
    assert [s.description for s in other.search_mcp_servers()] == ["d" * 5000]


def test_new_contents_replace_all_parts_of_the_old(store, other):
    add(store, "1.0.0", title=noise(1_000_000))
    before = sort_keys_of(store.table)
    changed = store.update_mcp_server_version(FILES, "1.0.0", tools=[])
    after = sort_keys_of(store.table)
    assert len(after) == len(before)
    assert not {sk for sk in before if "PART" in sk} & {*after}
    assert other.get_mcp_server_version(FILES, "1.0.0") == changed


def test_a_long_version_is_whole_though_its_server_is_removed_meanwhile(store, other, monkeypatch):
    """Removing a server empties its partition, so the parts of the version are written again."""
    add(store, "1.0.0")
    store.get_mcp_server(FILES)
    real, late = store.table.transact, [lambda: other.delete_mcp_server(FILES)]

    def transact(*args: Any) -> None:
        if late:
            late.pop()()
        real(*args)

    monkeypatch.setattr(store.table, "transact", transact)
    created = add(store, "2.0.0", title=noise(600_000))
    assert other.get_mcp_server_version(FILES, "2.0.0") == created
    assert [v.version for v in other.search_mcp_server_versions(FILES)] == ["2.0.0"]


def test_a_refused_version_leaves_no_parts(store):
    add(store, "1.0.0")
    before = sort_keys_of(store.table)
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        add(store, "1.0.0", title=noise(600_000))
    with refused("INVALID_PARAMETER_VALUE", "Invalid status transition"):
        store.update_mcp_server_version(FILES, "1.0.0", status=DEPRECATED, tools=[])
    assert sort_keys_of(store.table) == before
