"""A version exists whole or not at all, at whichever write a process dies; upkeep removes the rest.

A process may die before a write, or after it and before it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.entities.mcp_server import MCPTool
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.mcp.making import ACTIVE, DELETED, FILES, add, keys_of, noise

LONG, OTHER = noise(200_000), noise(150_000, seed=1)


class Death(BaseException):
    """Stands for the end of a process."""


def dying(store: Any, monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], Any], at: int) -> bool:
    """Make a call that dies before or after one of its writes; whether it completed."""
    left = at
    with monkeypatch.context() as patch:
        for method in ("write", "transact", "put", "update", "delete"):
            real = getattr(store.table, method)

            def limited(*args: Any, real: Any = real, **options: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise Death
                answer = real(*args, **options)
                if left == 1:
                    raise Death
                left -= 2
                return answer

            patch.setattr(store.table, method, limited)
        try:
            call(store)
        except Death:
            return False
    return True


def create(store: Any) -> None:
    add(store, "2.0.0", title=LONG, status=ACTIVE)


def update(store: Any) -> None:
    store.update_mcp_server_version(FILES, "1.0.0", tools=[MCPTool(name="t", title=OTHER)])


def delete(store: Any) -> None:
    store.delete_mcp_server_version(FILES, "1.0.0")


def bury(store: Any) -> None:
    store.update_mcp_server_version(FILES, "1.0.0", status=DELETED, tools=[])


def seen(store: Any) -> Any:
    """All that can be read of a server."""
    versions = store.search_mcp_server_versions(FILES)
    server = store.get_mcp_server(FILES)
    assert server.latest_version in [None, *(v.version for v in versions)]
    return server, list(versions)


@pytest.mark.parametrize("call", [create, update, delete, bury])
def test_a_change_happens_or_not_at_whatever_write_a_process_dies(
    store, other, time, monkeypatch, call
):
    monkeypatch.setattr(large_values, "PART_SIZE", 40_000)
    died = 0
    for at in range(20):
        add(store, "1.0.0", title=LONG)
        store.set_mcp_server_version_tag(FILES, "1.0.0", "long", "x" * 3000)
        store.create_mcp_access_endpoint(FILES, "https://x", server_alias="latest")
        before = seen(other)
        through = dying(store, monkeypatch, call, at)
        after = seen(other)
        if through:
            assert after != before
        Cleanup(store.table, sleep=time.sleep).run()
        assert seen(other) == after
        everything = keys_of(store.table)
        for version in after[1]:
            if version.status == ACTIVE:
                store.update_mcp_server_version(FILES, version.version, status="draft")
        other.delete_mcp_server(FILES)
        assert keys_of(store.table) == []
        # No part is left without an owner: one long text has three parts.
        assert len([sk for _, sk in everything if "#PART#" in sk]) <= 6
        if through:
            break
        died += 1
    assert died > 1


def test_a_change_whose_outcome_is_unknown_keeps_what_it_may_have_named(store, monkeypatch):
    """The transaction is applied, but its answer is lost."""
    add(store, "1.0.0")
    real = store.table.transact

    def unheard(*args: Any) -> None:
        real(*args)
        raise TimeoutError

    monkeypatch.setattr(store.table, "transact", unheard)
    with pytest.raises((TimeoutError, MlflowException)):
        add(store, "2.0.0", title=LONG)
    assert store.get_mcp_server_version(FILES, "2.0.0").server_json["title"] == LONG
