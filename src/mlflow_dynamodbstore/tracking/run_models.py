"""The logged models of a run, listed by entries below the run.

An entry lies at the name of its model; that of a second model of one name also has the model's id
in its key. It names the experiment of the model, which need not be that of the run. Older releases
kept one entry a name, for the latest model, and named no experiment in it: a run with such an entry
may have models that are not listed.
"""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.shared.run_lookup import RunLookup, places_by_id
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.model_records import LoggedModelPlace, logged_model_place_of

EXPERIMENT_ID, VOLUME, MODEL_ID = "experiment_id", "volume", "model_id"


def entry_of(run: RunPlace, name: str, model: LoggedModelPlace, *, with_id: bool = False) -> Put:
    """The write of a model's entry below its run, unless another model of its name has the key."""
    sk = run_keys.run_logged_model(run.run_id, name, model.model_id if with_id else None)
    attributes: Item = {MODEL_ID: model.model_id, EXPERIMENT_ID: model.experiment_id}
    if model.volume:
        attributes[VOLUME] = model.volume
    free = ABSENT | Attr(MODEL_ID).eq(model.model_id)
    return Put(run.child(sk, name, attributes), condition=free)


class RunModels:
    """The entries of logged models below their runs."""

    def __init__(self, context: Context, run_lookup: RunLookup) -> None:
        self.table = context.table
        self.run_lookup = run_lookup

    def write_with_entry(self, model: Item, children: list[Put]) -> None:
        """Write a new model with its children and its entry.

        The model comes last: a crash leaves items of a model that does not exist, never half a
        model.
        """
        own = Put(model, condition=ABSENT)
        run_id = model.get("source_run_id")
        run = None if run_id is None else self.run_lookup.find_place(run_id)
        if run is None:
            self.table.write(children, then=[own])
            return
        name, place = str(model["name"]), logged_model_place_of(model)
        outcomes = self.table.write([*children, entry_of(run, name, place)], then=[own])
        if outcomes[len(children)].status == "refused":
            self.table.write([entry_of(run, name, place, with_id=True)], then=[own])

    def removals(self, model: Item) -> list[Delete]:
        """The deletes of a model's entry, at either key."""
        run_id = model.get("source_run_id")
        run = None if run_id is None else self.run_lookup.find_place(run_id)
        if run is None:
            return []
        name, model_id = str(model["name"]), logged_model_place_of(model).model_id
        # An entry without an experiment stays: it tells that others may be missing.
        own = Attr(MODEL_ID).eq(model_id) & Attr(EXPERIMENT_ID).exists()
        return [
            Delete(Key(run.pk, run_keys.run_logged_model(run.run_id, name, listed_by)), own)
            for listed_by in (None, model_id)
        ]

    def find_models(self, run_id: str) -> list[Item] | None:
        """The own items of a run's models; None when entries may be missing.

        The run itself is read with its entries: those of a run that has expired may be incomplete.
        """
        run = self._place(run_id)
        if run is None:
            return None
        query = Query(run.pk, where=run_keys.run_until_logged_models(run_id).on())
        items = list(self.table.items(query))
        if not items or items[0]["SK"] != run.key.sk:
            return None
        listed = run_keys.run_logged_models(run_id)
        entries = [item for item in items if item["SK"] in listed]
        if not entries or any(EXPERIMENT_ID not in entry for entry in entries):
            return None
        return models_at(self.table, entries)

    def _place(self, run_id: str) -> RunPlace | None:
        """Where a run lies, by its id where that tells."""
        lookup, places = self.run_lookup.experiment_lookup, places_by_id(run_id)
        if len(places) == 1 and lookup.is_in_workspace(places[0].experiment_id):
            return places[0]
        return self.run_lookup.find_place(run_id)


def models_at(table: Table, entries: list[Item]) -> list[Item]:
    """The own items of the models that entries name, without those removed or expired."""
    keys = [
        logged_model_keys.logged_model_key(
            str(entry[EXPERIMENT_ID]), str(entry[MODEL_ID]), entry.get(VOLUME, 0)
        )
        for entry in entries
    ]
    found = table.get_many(keys)
    return [found[key] for key in keys if key in found]
