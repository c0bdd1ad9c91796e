"""MCP servers with their versions, tags, aliases and endpoints, in a database and in a table.

Of a deleted version a table keeps the number, which is not given again, and not the content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow.utils.semver_utils import encode_prerelease_sort_key, parse_semver

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.contents import content_of, stored_content
from mlflow_dynamodbstore.mcp.items import (
    ACTIVE,
    ACTIVE_VERSIONS,
    ALIAS,
    DELETED,
    ENDPOINT,
    LATEST,
    Target,
    given,
    new_endpoint,
    new_meta,
    new_version,
    prefixed,
    tombstone,
)
from mlflow_dynamodbstore.mcp.places import ServerPlace, name_of_guard
from mlflow_dynamodbstore.mcp.records import Version
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.names.tags import LONG_TAG, TAG, Tags, TagStore
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, NewRows, RowStore

_AUTHORS = {
    "created_by": "created_by",
    "updated_by": "last_updated_by",
    "created": "created_at",
    "updated": "last_updated_at",
}
_CONTENT = ("server_json", "tools", "connect_options")
_KEY = ("workspace", "name")


class _VersionTable(ChildTable):
    """Versions, with the columns by which MLflow sorts them."""

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        super().rows(entity, value, rows)
        for row in rows[self.table]:
            parsed = parse_semver(row["version"])
            row |= {
                "version_major": parsed.major,
                "version_minor": parsed.minor,
                "version_patch": parsed.patch,
                "version_prerelease_sort_key": encode_prerelease_sort_key(parsed),
                "server_json": row["server_json"] or {},
            }


class MCPServerRows(RowStore):
    """MCP servers in a database."""

    table = "mcp_servers"
    key = _KEY
    columns = ("display_name", "description", "icons", *_AUTHORS.values())
    children: ClassVar = {
        "versions": _VersionTable(
            "mcp_server_versions",
            _KEY,
            ("version",),
            ("status", "source", *_CONTENT, *_AUTHORS.values()),
        ),
        "tags": ChildTable("mcp_server_tags", _KEY, ("key",), ("value",)),
        "version_tags": ChildTable("mcp_server_version_tags", _KEY, ("version", "key"), ("value",)),
        "aliases": ChildTable("mcp_server_aliases", _KEY, ("alias",), ("version",)),
        "endpoints": ChildTable(
            "mcp_access_endpoints",
            ("workspace", "server_name"),
            ("id",),
            ("server_version", "server_alias", "url", "transport_type", *_AUTHORS.values()),
        ),
    }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        del row
        versions = entity.values["versions"]
        gone = {number for number, version in versions.items() if version["status"] == DELETED}
        for number in gone:
            kept = ("status", "created_at", "last_updated_at")
            versions[number] = {
                name: value if name in kept else None for name, value in versions[number].items()
            }
        tags = entity.values["version_tags"]
        entity.values["version_tags"] = {key: tags[key] for key in tags if key[0] not in gone}
        return entity


class MCPServerItems(ItemStore):
    """MCP servers in a table: a partition for each."""

    def count(self) -> int:
        return sum(1 for _ in self._places())

    def pages(self) -> Iterator[list[Entity]]:
        for places in batched(self._places(), AT_ONCE):
            yield self._read(places)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        return {entity.key: entity for entity in self._read([_place(e) for e in like])}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for entity in entities:
            place = _place(entity)
            self.transfer_table.workspaces.note(place.workspace)
            meta, below = self._items(place, entity)
            # The server last: one that exists is complete.
            self.transfer_table.put([*below, place.guard])
            self.transfer_table.put([meta])

    # --- reading --------------------------------------------------------------------------------

    def _places(self) -> Iterator[ServerPlace]:
        for workspace in all_workspaces(self.table):
            query = Query(access_keys.workspace_pk(workspace), where=mcp_keys.SERVER_NAMES.on())
            for guard in self.table.items(query):
                yield ServerPlace(name_of_guard(guard), workspace)

    def _read(self, places: Sequence[ServerPlace]) -> list[Entity]:
        found = self.table.map(self._entity, places)
        return [entity for entity in found if entity is not None]

    def _entity(self, place: ServerPlace) -> Entity | None:
        items = {str(item["SK"]): item for item in self.table.items(Query(place.pk))}
        meta = items.get(place.key.sk)
        if meta is None:
            return None
        keyed = {Key(place.pk, sk): item for sk, item in items.items()}
        versions, version_tags = {}, {}
        for item in items.values():
            if "status" not in item:  # a tag, or a part of a content
                continue
            version = Version(place, item).version
            versions[version] = self._version(item, keyed)
            store = place.tagging(version)
            if item["status"] != DELETED:
                tags = _tags(item, store, keyed)
                version_tags.update({(version, key): value for key, value in tags.items()})
        icons = meta.get("icons")
        values: dict[str, Any] = {
            "display_name": meta.get("display_name"),
            "description": meta.get("description"),
            "icons": None if icons is None else json.loads(icons),
            **_authors(meta),
            "versions": versions,
            "tags": dict(_tags(meta, place.tagging(), keyed)),
            "version_tags": version_tags,
            "aliases": prefixed(meta, ALIAS),
            "endpoints": {
                endpoint_id: _endpoint(items[place.endpoint_key(endpoint_id).sk], Target(*target))
                for endpoint_id, target in prefixed(meta, ENDPOINT).items()
            },
        }
        return Entity((place.workspace, place.name), values)

    def _version(self, item: Item, keyed: dict[Key, Item]) -> dict[str, Any]:
        if item["status"] == DELETED:
            content: dict[str, Any] = dict.fromkeys(_CONTENT)
        else:
            content = content_of(self.table, item, keyed)
        return {
            "status": item["status"],
            "source": item.get("source"),
            **content,
            **_authors(item),
        }

    # --- writing --------------------------------------------------------------------------------

    def _items(self, place: ServerPlace, entity: Entity) -> tuple[Item, list[Item]]:
        """A server's own item, and all that lies below it."""
        values, below, latest = entity.values, [], []
        meta = {**new_meta(place, values["created_at"], None), **_stored_authors(values)}
        icons = values["icons"]
        meta |= given(
            display_name=values["display_name"],
            description=values["description"],
            icons=None if icons is None else json.dumps(icons),
        )
        for number, row in values["versions"].items():
            created, status = row["created_at"], row["status"]
            item = new_version(place, number, created, status=status, source=row["source"], by=None)
            item |= _stored_authors(row)
            if status == DELETED:
                below.append(tombstone(item, row["last_updated_at"]))
                continue
            content = {name: row[name] for name in _CONTENT}
            stored = stored_content(place.version_key(number), content)
            item |= stored.attributes
            tags = {k: v for (version, k), v in values["version_tags"].items() if version == number}
            below += [put.item for put in stored.parts]
            below += _set_tags(item, place.tagging(number), tags)
            below.append(item)
            latest.append(Version(place, item, content).latest())
        if latest:
            meta[LATEST] = max(latest, key=lambda one: one.order).stored()
        meta[ACTIVE_VERSIONS] = sum(one.status == ACTIVE for one in latest)
        meta |= {ALIAS + alias: version for alias, version in values["aliases"].items()}
        for endpoint_id, row in values["endpoints"].items():
            meta[ENDPOINT + endpoint_id] = Target(
                row["server_version"], row["server_alias"]
            ).stored()
            item = new_endpoint(
                place,
                endpoint_id,
                row["created_at"],
                url=row["url"],
                transport=row["transport_type"],
                by=None,
            )
            below += [{**item, **_stored_authors(row)}, place.endpoint_entry(endpoint_id)]
        below += _set_tags(meta, place.tagging(), values["tags"])
        return meta, below


def _place(entity: Entity) -> ServerPlace:
    workspace, name = entity.key
    return ServerPlace(name, workspace)


def _authors(item: Item) -> dict[str, Any]:
    return {theirs: item.get(ours) for ours, theirs in _AUTHORS.items()}


def _stored_authors(values: dict[str, Any]) -> Item:
    return given(**{ours: values[theirs] for ours, theirs in _AUTHORS.items()})


def _tags(item: Item, store: TagStore, keyed: dict[Key, Item]) -> Tags:
    """The tags of a server or version: attributes of its item, and items beside it."""
    long = {key: keyed[store.key_of(key)]["value"] for key in prefixed(item, LONG_TAG)}
    return {**prefixed(item, TAG), **long}


def _set_tags(item: Item, store: TagStore, tags: Tags) -> list[Item]:
    """Add tags to an item; returns the items beside it that hold long ones."""
    change = store.setting(item, tags)
    item |= change.set
    return [write.item for write in change.writes if isinstance(write, Put)]


def _endpoint(item: Item, target: Target) -> dict[str, Any]:
    return {
        "server_version": target.version,
        "server_alias": target.alias,
        "url": item["url"],
        "transport_type": item["transport"],
        **_authors(item),
    }
