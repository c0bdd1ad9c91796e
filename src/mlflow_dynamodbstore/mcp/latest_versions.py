"""Which version of a server is the latest.

It is the active version of highest precedence, or the highest of all when none is active. META
names it, so a change decides on META which one it will be. Versions are read, in order of
precedence, only when the latest one is deleted or no longer active.
"""

from __future__ import annotations

from itertools import groupby

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.endpoints import remove_endpoints
from mlflow_dynamodbstore.mcp.items import (
    ACTIVE,
    ACTIVE_VERSIONS,
    DELETED,
    LATEST,
    LATEST_ALIAS,
    NOT_DELETED,
    Latest,
)
from mlflow_dynamodbstore.mcp.records import Server, Version
from mlflow_dynamodbstore.mcp.server_reader import ServerReader
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.table.contract import Query

PAGE = 50


class LatestVersions:
    """Finding the latest version when versions are created, changed or deleted."""

    def __init__(self, context: Context, server_reader: ServerReader) -> None:
        self.table = context.table
        self.server_reader = server_reader

    def status_change(self, server: Server, before: Version | None, after: Latest) -> Change:
        """How a version's new status changes its server; ``before`` is None for a new version."""
        change = Change()
        was_active = before is not None and before.status == ACTIVE
        active = server.active_versions - was_active + (after.status == ACTIVE)
        if active != server.active_versions:
            change.set[ACTIVE_VERSIONS] = active
        latest = self._latest_after(server, before, after)
        if latest is None:
            change.remove.append(LATEST)
            remove_endpoints(change, server, server.endpoints_of({LATEST_ALIAS}))
        elif latest != server.latest:
            change.set[LATEST] = latest.stored()
        return change

    def _latest_after(self, server: Server, before: Version | None, after: Latest) -> Latest | None:
        candidates = [] if after.status == DELETED else [after]
        if server.latest is None:
            return next(iter(candidates), None)
        if before is None or server.latest.version != before.version:
            return max([server.latest, *candidates], key=lambda latest: latest.order)
        if after.status != ACTIVE:  # another version may become the latest
            is_other_active = server.active_versions - (before.status == ACTIVE) > 0
            other = self._highest(server, before.version, is_other_active)
            candidates += [] if other is None else [other]
        return max(candidates, key=lambda latest: latest.order, default=None)

    def _highest(self, server: Server, excluded: str, active: bool) -> Latest | None:
        """The highest version except one, among the active ones or among all."""
        query = Query(
            server.place.pk,
            where=mcp_keys.SERVER_VERSIONS.on(),
            descending=True,
            limit=PAGE,
            filter=Attr("status").eq(ACTIVE) if active else NOT_DELETED,
        )
        versions = (Version(server.place, item) for item in self.table.items(query))
        others = (version for version in versions if version.version != excluded)
        for _, equals in groupby(
            others, lambda v: mcp_keys.server_version_of(v.item["SK"]).precedence
        ):
            highest = max(equals, key=lambda version: (version.item["created"], version.version))
            (complete,) = self.server_reader.with_content([highest])
            return complete.latest()
        return None
