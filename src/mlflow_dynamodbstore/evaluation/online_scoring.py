"""Online scoring: which scorers score new traces, and what share of them.

The configuration is an attribute of the scorer. The active scorers of the whole table are listed in
one partition, because the server asks for all of them at once.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from mlflow.genai.judges.instructions_judge import EXPECTATIONS_FIELD, InstructionsJudge
from mlflow.genai.scorers.base import Scorer
from mlflow.genai.scorers.online.entities import OnlineScorer, OnlineScoringConfig
from mlflow.genai.scorers.scorer_utils import (
    extract_model_from_serialized_scorer,
    is_gateway_model,
)
from mlflow.utils.search_utils import SearchTraceUtils

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS
from mlflow_dynamodbstore.evaluation.scorer_endpoints import (
    ScorerEndpoints,
    endpoint_ref,
    with_endpoint,
)
from mlflow_dynamodbstore.evaluation.scorer_items import (
    LATEST,
    ScorerPlace,
    scorer_change,
    version_key,
)
from mlflow_dynamodbstore.evaluation.scorers import Scorers
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.mlflow_compat.scorers import online_scorer
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Delete, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.values import Item

ONLINE = "online"
"""Attribute of a scorer: its online scoring configuration."""


class OnlineScoring:
    """The online scoring configurations of scorers."""

    def __init__(
        self, context: Context, scorer_endpoints: ScorerEndpoints, scorers: Scorers
    ) -> None:
        self.table = context.table
        self.scorer_endpoints = scorer_endpoints
        self.scorers = scorers

    def upsert_online_scoring_config(
        self,
        experiment_id: str,
        scorer_name: str,
        sample_rate: float,
        filter_string: str | None = None,
    ) -> OnlineScoringConfig:
        _check_config(sample_rate, filter_string)
        place = self.scorers.place(experiment_id, scorer_name)

        def attempt() -> OnlineScoringConfig:
            scorer = self.scorers.get_item(place, experiment_id)
            if sample_rate > 0 and scorer[LATEST]:
                self._check_online_scorer(scorer)
            config: Item = {
                "id": uuid.uuid4().hex,
                "sample_rate": float(sample_rate),
                "filter_string": filter_string or None,
            }
            self.table.transact(
                [scorer_change(scorer, {ONLINE: config}), online_entry(place, sample_rate)]
            )
            return _config({**scorer, ONLINE: config})

        return optimistically(f"Scorer '{scorer_name}'", attempt)

    def get_online_scoring_configs(self, scorer_ids: list[str]) -> list[OnlineScoringConfig]:
        scorers = self.scorers.find_by_ids(scorer_ids) if scorer_ids else []
        return [_config(scorer) for scorer in scorers if ONLINE in scorer]

    def get_active_online_scorers(self) -> list[OnlineScorer]:
        entries = self.table.items(
            Query(scorer_keys.ONLINE_PK, where=scorer_keys.ONLINE_SCORERS.on())
        )
        places = [ScorerPlace(str(one["experiment_id"]), str(one["name"])) for one in entries]
        latest = self.scorers.latest_versions(
            scorer
            for scorer in self.scorers.find_at(places)
            if ONLINE in scorer and scorer[ONLINE]["sample_rate"] > 0
        )
        texts = large_values.load_many(self.table, [version for _, version in latest], CONTENTS)
        name_of = self.scorer_endpoints.endpoint_names()
        active = []
        for (scorer, version), text in zip(latest, texts, strict=True):
            endpoint = endpoint_ref(str(text))
            if endpoint is not None:
                active.append(
                    online_scorer(
                        name=scorer["name"],
                        serialized_scorer=with_endpoint(str(text), name_of(endpoint) or endpoint),
                        online_config=_config(scorer),
                        scorer_version=scorer_keys.scorer_version_of(str(version["SK"])),
                    )
                )
        return active

    def _check_online_scorer(self, scorer: Item) -> None:
        """Refuse a scorer that cannot score traces automatically, with MLflow's errors."""
        version = self.table.get(version_key(scorer))
        if version is None:
            return  # deleted since: the write will be refused
        serialized = str(large_values.load(self.table, version, CONTENTS))
        if not is_gateway_model(extract_model_from_serialized_scorer(json.loads(serialized))):
            raise invalid(
                f"Scorer '{scorer['name']}' does not use a gateway model. Automatic evaluation "
                "is only supported for scorers that use gateway models."
            )
        if _needs_expectations(serialized):
            raise invalid(
                f"Scorer '{scorer['name']}' requires expectations, but scorers with "
                "expectations are not currently supported for automatic evaluation."
            )


def _check_config(sample_rate: Any, filter_string: Any) -> None:
    if not isinstance(sample_rate, (int, float)):
        raise invalid(f"sample_rate must be a number, got {type(sample_rate).__name__}")
    if not 0.0 <= sample_rate <= 1.0:
        raise invalid(f"sample_rate must be between 0.0 and 1.0, got {sample_rate}")
    if filter_string and not isinstance(filter_string, str):
        raise invalid(f"filter_string must be a string, got {type(filter_string).__name__}")
    if filter_string:
        SearchTraceUtils.parse_search_filter_for_search_traces(filter_string)


def _needs_expectations(serialized: str) -> bool:
    try:
        scorer = Scorer.model_validate_json(serialized)
    except Exception:  # noqa: BLE001 - scorers of other packages may raise anything
        return False  # as in MLflow, a scorer that cannot be read is accepted
    return isinstance(scorer, InstructionsJudge) and EXPECTATIONS_FIELD in scorer.get_input_fields()


def online_entry(place: ScorerPlace, sample_rate: float) -> TransactWrite:
    """The write that lists a scorer as active, or removes it from the list."""
    key = place.online_key
    if sample_rate <= 0:
        return Delete(key)
    entry: Item = {"experiment_id": place.experiment_id, "name": place.name}
    return Put({"PK": key.pk, "SK": key.sk, **entry})


def _config(scorer: Item) -> OnlineScoringConfig:
    config = scorer[ONLINE]
    return OnlineScoringConfig(
        online_scoring_config_id=config["id"],
        scorer_id=scorer["scorer_id"],
        sample_rate=config["sample_rate"],
        experiment_id=experiment_id_of(scorer),
        filter_string=config["filter_string"],
    )
