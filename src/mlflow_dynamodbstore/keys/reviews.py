"""Keys of label schemas and review queues, which lie in their experiment's partition.

LSI1 lists them as MLflow does: the newest first, and by id among those of one millisecond.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import (
    ID,
    LONE_NAME,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded, ordered_int
from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, experiment_pk
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection, described
from mlflow_dynamodbstore.table.values import Item, Key

_LOCATOR = "RV#LOC"
ITEM = 200  # bytes: MLflow's limit of 50 characters, each of four bytes

REVIEW_QUEUES = children("RQ")
"""All review queues of an experiment with everything below them."""

# --- label schemas ------------------------------------------------------------------------------


def label_schema(schema_id: str) -> str:
    """A label schema."""
    return join("LS", bounded(schema_id, ID))


def label_schema_key(experiment_id: str, schema_id: str) -> Key:
    """The whole key of a label schema."""
    return Key(experiment_pk(experiment_id), label_schema(schema_id))


def label_schema_id_of(sk: str) -> str | None:
    """The id of a label schema."""
    return key_text(pieces_of(sk, "LS")[0])


def label_schema_name(name: str) -> str:
    """The guard that keeps a label schema's name unique in its experiment."""
    return join("LSNAME", bounded(name, LONE_NAME))


def lsi1_label_schema(schema_id: str, created: int) -> str:
    """A label schema by age."""
    return _by_age("LS", created, bounded(schema_id, ID))


def label_schemas_by_age(after: tuple[int, str] | None = None) -> Range:
    """In LSI1: label schemas, the newest first, or from a creation time and id on."""
    return _from("LS", None if after is None else lsi1_label_schema(after[1], after[0]))


# --- review queues ------------------------------------------------------------------------------


def review_queue(queue_id: str) -> str:
    """A review queue's own item."""
    return join("RQ", bounded(queue_id, ID))


def review_queue_key(experiment_id: str, queue_id: str) -> Key:
    """The whole key of a review queue's own item."""
    return Key(experiment_pk(experiment_id), review_queue(queue_id))


def review_queue_id_of(sk: str) -> str | None:
    """The review queue that a sort key belongs to."""
    return key_text(pieces_of(sk, "RQ")[0])


def review_queue_name(name: str) -> str:
    """The guard that keeps a review queue's name unique in its experiment, whatever its case."""
    return join("RQNAME", bounded(name.lower(), LONE_NAME))


def lsi1_review_queue(queue_id: str, created: int) -> str:
    """A review queue by age."""
    return _by_age("RQ", created, bounded(queue_id, ID))


def review_queues_by_age(after: tuple[int, str] | None = None) -> Range:
    """In LSI1: review queues, the newest first, or from a creation time and id on."""
    return _from("RQ", None if after is None else lsi1_review_queue(after[1], after[0]))


# --- locators -----------------------------------------------------------------------------------


def review_locator_key(entity_id: str) -> Key:
    """Tells where an imported label schema or review queue lies, whose id does not."""
    return Key(join("REVIEW", bounded(entity_id, ID)), _LOCATOR)


# --- items of review queues ---------------------------------------------------------------------


def review_item(queue_id: str, item_id: str) -> str:
    """An item of a review queue: a trace to review."""
    return join(review_queue(queue_id), "ITEM", bounded(item_id, ITEM))


def review_item_key(experiment_id: str, queue_id: str, item_id: str) -> Key:
    """The whole key of an item of a review queue."""
    return Key(experiment_pk(experiment_id), review_item(queue_id, item_id))


def review_items(queue_id: str) -> Range:
    """All items of a review queue."""
    return children(join(review_queue(queue_id), "ITEM"))


def review_item_id_of(sk: str) -> str | None:
    """The id of the trace to review."""
    return key_text(pieces_of(sk, "RQ")[2])


def lsi1_review_item(queue_id: str, status: str, item_id: str, created: int) -> str:
    """An item of a review queue by status, then age."""
    return _by_age(_of_status(queue_id, status), created, bounded(item_id, ITEM))


def lsi4_review_item(item_id: str, queue_id: str) -> str:
    """An item of a review queue, by the trace to review."""
    return join("RQI", bounded(item_id, ITEM), bounded(queue_id, ID))


def review_items_of_status(
    queue_id: str, status: str, after: tuple[int, str] | None = None
) -> Range:
    """In LSI1: items of a status, the newest first, or from a creation time and id on."""
    first = None if after is None else lsi1_review_item(queue_id, status, after[1], after[0])
    return _from(_of_status(queue_id, status), first)


def review_queues_with(item_id: str) -> Range:
    """In LSI4: the review queues that a trace is in."""
    return children(join("RQI", bounded(item_id, ITEM)))


def _of_status(queue_id: str, status: str) -> str:
    return join("RQI", bounded(queue_id, ID), bounded(status, WORD))


def _by_age(key: str, created: int, piece: str) -> str:
    return join(key, ordered_int(-created), piece)


def _from(key: str, first: str | None) -> Range:
    everything = children(key)
    return everything if first is None else Range(first, everything.high)


# --- what an item is ----------------------------------------------------------------------------


def _label_schema(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    return described("Label schema" if len(words) == 2 else None, Key(pk, EXPERIMENT_META))


def _label_schema_name(pk: str, _words: list[str], item: Item) -> ItemDescription:
    owners = (Key(pk, EXPERIMENT_META), Key(pk, label_schema(str(item["id"]))))
    return ItemDescription("Name of a label schema", owners)


def _review_queue(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    meta = Key(pk, EXPERIMENT_META)
    if len(words) == 2:
        return ItemDescription("Review queue", (meta,))
    is_item = len(words) == 4 and words[2] == "ITEM"
    return described("Item of a review queue" if is_item else None, meta, Key(pk, join(*words[:2])))


def _review_queue_name(pk: str, _words: list[str], item: Item) -> ItemDescription:
    owners = (Key(pk, EXPERIMENT_META), Key(pk, review_queue(str(item["id"]))))
    return ItemDescription("Name of a review queue", owners)


def _locator(_pk: str, words: list[str], item: Item) -> ItemDescription | None:
    if words != ["RV", "LOC"]:
        return None
    owner = Key(experiment_pk(str(item["experiment_id"])), EXPERIMENT_META)
    return ItemDescription("Locator of a label schema or review queue", (owner,))


SECTION = KeySection(
    partitions={"REVIEW": _locator},
    in_experiment={
        "LS": _label_schema,
        "LSNAME": _label_schema_name,
        "RQ": _review_queue,
        "RQNAME": _review_queue_name,
    },
)
