"""Scorers and their versions.

A scorer's own item holds the number of its latest version and counts its changes. Every change of
the scorer is one transaction that raises the count, on condition that it is as it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mlflow.entities.scorer import ScorerVersion
from mlflow.exceptions import MlflowException
from mlflow.genai.scorers.scorer_utils import (
    extract_model_from_serialized_scorer,
    validate_scorer_model,
    validate_scorer_name,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS
from mlflow_dynamodbstore.evaluation.experiment_lists import listed_experiments
from mlflow_dynamodbstore.evaluation.scorer_endpoints import (
    SCORER,
    ScorerEndpoints,
    endpoint_ref,
    scorer_data,
    with_endpoint,
)
from mlflow_dynamodbstore.evaluation.scorer_items import (
    BOUND,
    LATEST,
    ScorerPlace,
    is_unchanged,
    new_scorer,
    scorer_change,
    scorer_entity,
    scorer_locator,
    version_key,
)
from mlflow_dynamodbstore.gateway.bindings import Bindings
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.keys.experiments import experiment_key, experiment_pk
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Delete, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.values import Item

FEW_EXPERIMENTS = 3
"""For more experiments than this, the list of those that have scorers is read first."""


class Scorers:
    """The scorers of experiments."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        gateway_bindings: Bindings,
        scorer_endpoints: ScorerEndpoints,
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.gateway_bindings = gateway_bindings
        self.scorer_endpoints = scorer_endpoints

    def register_scorer(
        self, experiment_id: str, name: str, serialized_scorer: str
    ) -> ScorerVersion:
        validate_scorer_name(name)
        place = self.place(experiment_id, name)
        model = extract_model_from_serialized_scorer(scorer_data(serialized_scorer))
        validate_scorer_model(model)
        endpoint_id = None
        if (endpoint := endpoint_ref(serialized_scorer)) is not None:
            endpoint_id = self.scorer_endpoints.endpoint_id_of(endpoint)
            serialized_scorer = with_endpoint(serialized_scorer, endpoint_id)
        scorer, version = optimistically(
            f"Scorer '{name}'",
            lambda: self._add_version(place, serialized_scorer, endpoint_id is not None),
        )
        if endpoint_id is not None:
            self.gateway_bindings.rebind_resource(
                endpoint_id, SCORER, str(scorer["scorer_id"]), name
            )
        return self.scorer_endpoints.resolve_endpoint_in_scorer(
            scorer_entity(scorer, version, serialized_scorer)
        )

    def list_scorers(self, experiment_id: str | int) -> list[ScorerVersion]:
        meta = self.experiment_lookup.get_active(experiment_id)
        return self.list_scorers_across_experiments([experiment_id_of(meta)])

    def list_scorers_across_experiments(
        self, experiment_ids: Sequence[str | int]
    ) -> list[ScorerVersion]:
        wanted = {str(number) for number in parse_experiment_ids(list(experiment_ids))}
        if len(wanted) > FEW_EXPERIMENTS:
            wanted &= set(listed_experiments(self.table, scorer_keys.EXPERIMENTS_WITH_SCORERS_PK))
        found = self.table.map(self._scorers_in, sorted(wanted))
        scorers = sorted(
            (scorer for some in found for scorer in some if scorer[LATEST]),
            key=lambda scorer: (int(experiment_id_of(scorer)), scorer["name"]),
        )
        return self._to_entities(self.latest_versions(scorers))

    def get_scorer(
        self, experiment_id: str | int, name: str, version: int | None = None
    ) -> ScorerVersion:
        place = self.place(experiment_id, name)
        scorer = self.get_item(place, experiment_id)
        item = self.table.get(version_key(scorer, version))
        if item is None:
            raise _not_found(experiment_id, name, version)
        return self.scorer_endpoints.resolve_endpoint_in_scorer(self._to_entity(scorer, item))

    def list_scorer_versions(self, experiment_id: str | int, name: str) -> list[ScorerVersion]:
        place = self.place(experiment_id, name)
        scorer = self.get_item(place, experiment_id)
        versions = list(self._versions(scorer))
        if not versions:
            raise _not_found(experiment_id, name)
        return self._to_entities([(scorer, version) for version in versions])

    def delete_scorer(
        self, experiment_id: str | int, name: str, version: int | None = None
    ) -> None:
        place = self.place(experiment_id, name)

        def attempt() -> None:
            scorer = self.get_item(place, experiment_id)
            if version is not None:
                self._delete_version(scorer, experiment_id, int(version))
            elif not scorer[LATEST]:
                raise _not_found(experiment_id, name)
            else:
                self._delete_scorer(place, scorer)

        optimistically(f"Scorer '{name}'", attempt)

    # --- by id ----------------------------------------------------------------------------------

    def find_by_ids(self, scorer_ids: Sequence[str]) -> list[Item]:
        """The scorers with these ids that the active workspace has."""
        wanted = [scorer_keys.scorer_locator_key(scorer_id) for scorer_id in scorer_ids]
        located = self.table.get_many(wanted)
        return self.find_at(
            [
                ScorerPlace(str(found["experiment_id"]), str(found["name"]))
                for key in dict.fromkeys(wanted)
                if (found := located.get(key)) is not None
            ]
        )

    def find_at(self, places: Sequence[ScorerPlace]) -> list[Item]:
        """The scorers at these places that exist, in experiments of the active workspace."""
        metas = {place: experiment_key(place.experiment_id) for place in places}
        found = self.table.get_many([*metas.values(), *(place.key for place in places)])
        workspace = self.context.workspace()
        return [
            found[place.key]
            for place, meta in metas.items()
            if meta in found and found[meta]["workspace"] == workspace and place.key in found
        ]

    def version_by_id(self, scorer_id: str, version: int | None = None) -> ScorerVersion:
        """A version of the scorer with this id, as it is stored: with the id of its endpoint."""
        scorers = self.find_by_ids([scorer_id])
        item = self.table.get(version_key(scorers[0], version)) if scorers else None
        if not scorers or (item is None and version is None):
            raise not_found(f"Scorer with ID '{scorer_id}' not found.")
        if item is None:
            raise not_found(f"Scorer with ID '{scorer_id}' and version {version} not found.")
        return self._to_entity(scorers[0], item)

    # --- reading --------------------------------------------------------------------------------

    def place(self, experiment_id: str | int, name: str) -> ScorerPlace:
        return ScorerPlace(experiment_id_of(self.experiment_lookup.get_active(experiment_id)), name)

    def get_item(self, place: ScorerPlace, experiment_id: str | int) -> Item:
        scorer = self.table.get(place.key)
        if scorer is None:
            raise _not_found(experiment_id, place.name)
        return scorer

    def latest_versions(self, scorers: Iterable[Item]) -> list[tuple[Item, Item]]:
        """Scorers with their latest versions."""
        latest = {version_key(scorer): scorer for scorer in scorers}
        versions = self.table.get_many(latest)
        return [(scorer, versions[key]) for key, scorer in latest.items() if key in versions]

    def _scorers_in(self, experiment_id: str) -> list[Item]:
        """The scorers of an experiment; none if it is not in the active workspace."""
        if not self.experiment_lookup.is_in_workspace(experiment_id):
            return []
        query = Query(experiment_pk(experiment_id), where=scorer_keys.SCORERS.on())
        return list(self.table.items(query))

    def _versions(self, scorer: Item) -> Iterator[Item]:
        where = scorer_keys.scorer_versions(str(scorer["scorer_id"])).on()
        found = self.table.items(Query(str(scorer["PK"]), where=where))
        return (item for item in found if scorer_keys.is_scorer_version(str(item["SK"])))

    def _to_entity(self, scorer: Item, version: Item) -> ScorerVersion:
        return scorer_entity(scorer, version, str(large_values.load(self.table, version, CONTENTS)))

    def _to_entities(self, found: Sequence[tuple[Item, Item]]) -> list[ScorerVersion]:
        """Versions of scorers as MLflow shows them, with the names of their endpoints."""
        texts = large_values.load_many(self.table, [version for _, version in found], CONTENTS)
        name_of = self.scorer_endpoints.endpoint_names()
        entities = []
        for (scorer, version), text in zip(found, texts, strict=True):
            serialized = str(text)
            ref = endpoint_ref(serialized)
            if ref is not None:
                serialized = with_endpoint(serialized, name_of(ref))
            entities.append(scorer_entity(scorer, version, serialized))
        return entities

    # --- writing --------------------------------------------------------------------------------

    def _add_version(self, place: ScorerPlace, serialized: str, bound: bool) -> tuple[Item, Item]:
        """Add a version, and the scorer if it is the first; returns the items of both."""
        before = self.table.get(place.key)
        scorer = new_scorer(place) if before is None else before
        number = scorer[LATEST] + 1
        key = version_key(scorer, number)
        stored = large_values.store(key, CONTENTS, serialized)
        created = get_current_time_millis()
        version: Item = {"PK": key.pk, "SK": key.sk, "created": created, **stored.attributes}
        changes: Item = {LATEST: number, **({BOUND: True} if bound else {})}
        writes: list[TransactWrite] = [Put(version, condition=ABSENT)]
        if before is None:
            writes.append(Put({**scorer, **changes}, condition=ABSENT))
            writes.append(Put(scorer_locator(place, scorer)))
            listed = scorer_keys.experiment_with_scorers_key(place.experiment_id)
            writes.append(Put({"PK": listed.pk, "SK": listed.sk}))
        else:
            writes.append(scorer_change(scorer, changes))
        self.table.write(stored.parts)
        try:
            self.table.transact(writes)
        except TransactionCancelled:
            self.table.write(large_values.removal(version, CONTENTS))
            raise
        return scorer, version

    def _delete_version(self, scorer: Item, experiment_id: str | int, version: int) -> None:
        versions = {
            scorer_keys.scorer_version_of(str(item["SK"])): item for item in self._versions(scorer)
        }
        gone = versions.pop(version, None)
        if gone is None:
            raise _not_found(experiment_id, str(scorer["name"]), version)
        left = max(versions, default=0)
        self.table.transact(
            [Delete(version_key(scorer, version)), scorer_change(scorer, {LATEST: left})]
        )
        self.table.write(large_values.removal(gone, CONTENTS))

    def _delete_scorer(self, place: ScorerPlace, scorer: Item) -> None:
        """Remove a scorer; its own item first, so that nobody finds half of it."""
        scorer_id = str(scorer["scorer_id"])
        self.table.transact(
            [
                Delete(place.key, condition=is_unchanged(scorer)),
                Delete(scorer_keys.scorer_locator_key(scorer_id)),
                Delete(place.online_key),
            ]
        )
        where = scorer_keys.scorer_versions(scorer_id).on()
        below = list(self.table.items(Query(place.key.pk, where=where, keys_only=True)))
        self.table.write([Delete(self.table.schema.key_of(item)) for item in below])
        if BOUND in scorer:
            self.gateway_bindings.unbind_resource(SCORER, scorer_id)


def _not_found(experiment_id: str | int, name: str, version: int | None = None) -> MlflowException:
    of_version = "" if version is None else f" and version {version}"
    return not_found(
        f"Scorer with name '{name}'{of_version} not found for experiment {experiment_id}."
    )
