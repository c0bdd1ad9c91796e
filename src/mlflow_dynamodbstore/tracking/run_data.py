"""Params, tags and batches of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Metric, Param, RunTag
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_MODELS, MLFLOW_RUN_NAME

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_batch_log_data,
    validate_batch_log_limits,
    validate_param,
    validate_param_keys_unique,
    validate_run_id,
    validate_tag,
)
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import RunPlace, kind_and_name, run_place_of
from mlflow_dynamodbstore.shared.plain_values import WrongTypeError, optional_text, text
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Delete, Outcome, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.checks import checked_params, checked_points
from mlflow_dynamodbstore.tracking.logged_models import LoggedModels
from mlflow_dynamodbstore.tracking.metrics import Metrics
from mlflow_dynamodbstore.tracking.records import BEGUN_WITH
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission
from mlflow_dynamodbstore.tracking.runs import Runs


class RunData:
    """Logging params and tags to runs, alone and in batches with metrics."""

    def __init__(
        self,
        context: Context,
        run_admission: RunAdmission,
        runs: Runs,
        logged_models: LoggedModels,
        metrics: Metrics,
    ) -> None:
        self.table = context.table
        self.run_admission = run_admission
        self.runs = runs
        self.logged_models = logged_models
        self.metrics = metrics

    def log_param(self, run_id: str, param: Param) -> None:
        param = validate_param(param.key, text(param.value, "a param"))
        run = run_place_of(self.run_admission.admit(run_id))
        written = self.table.write([_param_put(run, param.key, param.value)])
        refused = _other_values({param.key: param.value}, written)
        if refused:
            raise invalid(
                f"Changing param values is not allowed. Param with key='{param.key}' was already"
                f" logged with value='{refused[param.key]}' for run ID='{run_id}'. "
                f"Attempted logging new value '{param.value}'."
            )
        self.run_admission.confirm(run)

    def set_tag(self, run_id: str, tag: RunTag) -> None:
        tag = validate_tag(tag.key, optional_text(tag.value, "a tag"))
        item = self.run_admission.admit(run_id)
        if tag.key == MLFLOW_RUN_NAME:
            self.runs.update_run_info(run_id, None, None, tag.value)
            return
        run = run_place_of(item)
        self.table.put(run.tag(tag.key, tag.value))
        self.run_admission.confirm(run)

    def delete_tag(self, run_id: str, key: str) -> None:
        item = self.run_admission.admit(run_id)
        run = run_place_of(item)
        tag, there = Key(run.pk, run_keys.run_tag(run_id, key)), Attr("value").exists()
        missing = f"No tag with name: {key} in run with id {run_id}"
        try:
            if BEGUN_WITH in item:
                # From now on, a run with fewer tags than it began with is whole.
                unmarked = Patch(run.key, Update(remove=(BEGUN_WITH,)), PRESENT)
                self.table.transact([Delete(tag, there), unmarked])
            else:
                self.table.delete(tag, condition=there)
        except ConditionFailed as error:
            raise not_found(missing) from error
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                raise not_found(missing) from cancelled
            if not cancelled.any_refused:
                raise  # else the run was removed meanwhile, which the confirmation tells
        self.run_admission.confirm(run)

    def log_batch(
        self,
        run_id: str,
        metrics: Sequence[Metric],
        params: Sequence[Param],
        tags: Sequence[RunTag],
    ) -> None:
        validate_run_id(run_id)
        points = checked_points(metrics)
        values = checked_params(params)
        if tags:
            tags = [RunTag(tag.key, optional_text(tag.value, "a tag")) for tag in tags]
        _, _, tags = validate_batch_log_data([], [], tags)
        validate_batch_log_limits(metrics, params, tags)
        if len(values) < len(params):
            validate_param_keys_unique(params)
        cached = bool(metrics and not params and not tags)
        known: Mapping[str, str] = {}
        if cached:
            run = self.run_admission.admit_cached(run_id)
        else:
            run, known = self._admitted_with_params(run_id, reads_params=bool(params))
        fresh = self._fresh_params(run, values, known)
        texts = {tag.key: tag.value for tag in tags}
        if (name := texts.pop(MLFLOW_RUN_NAME, None)) is not None:
            self.set_tag(run_id, RunTag(MLFLOW_RUN_NAME, name))
        self.logged_models.log_model_metrics(run, metrics)
        others = [
            *[_param_put(run, key, value) for key, value in fresh.items()],
            *[Put(run.tag(key, value)) for key, value in texts.items()],
        ]
        outcomes = self.metrics.write(run, points, others, cached=cached)
        # Another call may have logged another value for a key since the params were read.
        self._refuse_changed(run, values, _other_values(fresh, outcomes))

    def record_logged_model(self, run_id: str, mlflow_model: Model) -> None:
        if not isinstance(mlflow_model, Model):
            raise WrongTypeError(
                f"Argument 'mlflow_model' should be mlflow.models.Model, got '{type(mlflow_model)}'"
            )
        run = run_place_of(self.run_admission.admit(run_id))
        key = Key(run.pk, run_keys.run_tag(run_id, MLFLOW_LOGGED_MODELS))
        added = mlflow_model.get_tags_dict()

        def attempt() -> None:
            before = self.table.get(key)
            models = json.loads(str(before["value"])) if before else []
            value = json.dumps([*models, added])
            validate_tag(MLFLOW_LOGGED_MODELS, value)
            same = Attr("value").eq(before["value"]) if before else ABSENT
            self.table.put(run.tag(MLFLOW_LOGGED_MODELS, value), condition=same)

        optimistically(f"Run {run_id}", attempt)
        self.run_admission.confirm(run)

    # --- params ---------------------------------------------------------------------------------

    def _admitted_with_params(
        self, run_id: str, *, reads_params: bool
    ) -> tuple[RunPlace, Mapping[str, str]]:
        """An active run and, if asked for, the params that are logged to it."""
        place = self.run_admission.known_place(run_id) if reads_params else None
        if place is not None:
            item, params = self.table.together(
                lambda: self.run_admission.admit(run_id), lambda: self._stored_params(place)
            )
            return run_place_of(item), params
        run = run_place_of(self.run_admission.admit(run_id))
        return run, self._stored_params(run) if reads_params else {}

    def _stored_params(self, run: RunPlace) -> dict[str, str]:
        query = Query(run.pk, where=run_keys.run_params(run.run_id).on())
        return {kind_and_name(item)[1]: item["value"] for item in self.table.items(query)}

    def _fresh_params(
        self, run: RunPlace, params: Mapping[str, str], known: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The params of a batch that are not logged yet; raises when one would change."""
        if not known:
            return params
        changed = {key: known[key] for key in params if known.get(key, params[key]) != params[key]}
        self._refuse_changed(run, params, changed)
        return {key: value for key, value in params.items() if key not in known}

    def _refuse_changed(
        self, run: RunPlace, params: Mapping[str, str], changed: Mapping[str, str]
    ) -> None:
        if not changed:
            return
        refused = [
            {"key": key, "old_value": old, "new_value": params[key]} for key, old in changed.items()
        ]
        raise invalid(
            "Changing param values is not allowed. Params were already"
            f" logged='{refused}' for run ID='{run.run_id}'."
        )


def _param_put(run: RunPlace, key: str, value: str) -> Put:
    """The write of a param, which succeeds when it is new."""
    return Put(run.param(key, value), ABSENT)


def _other_values(params: Mapping[str, str], outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The stored values of params that were refused, where they differ."""
    return {
        key: outcome.image["value"]
        for key, outcome in zip(params, outcomes, strict=False)
        if outcome.image is not None and outcome.image["value"] != params[key]
    }
