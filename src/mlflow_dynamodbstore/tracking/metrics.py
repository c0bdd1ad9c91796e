"""Logging metrics to runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.full_partitions import suppressed_if_full
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.contract import (
    Delete,
    IncompleteWrite,
    Outcome,
    Put,
    Write,
    is_full,
)
from mlflow_dynamodbstore.tracking.checks import checked_points
from mlflow_dynamodbstore.tracking.logged_models import LoggedModels
from mlflow_dynamodbstore.tracking.metric_log import Append, MetricLog
from mlflow_dynamodbstore.tracking.points import Point
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission


class Metrics:
    """Metrics of runs, alone and together with other writes."""

    def __init__(
        self,
        context: Context,
        run_admission: RunAdmission,
        logged_models: LoggedModels,
        metric_log: MetricLog,
    ) -> None:
        self.table = context.table
        self.run_admission = run_admission
        self.logged_models = logged_models
        self.metric_log = metric_log

    def log_metric(self, run_id: str, metric: Metric) -> None:
        points = checked_points([metric], alone=True)
        run = self.run_admission.admit_cached(run_id)
        self.logged_models.log_model_metrics(run, [metric])
        self.write(run, points)

    def write(
        self,
        run: RunPlace,
        points: Mapping[str, Sequence[Point]],
        others: Sequence[Write] = (),
        *,
        cached: bool = True,
    ) -> list[Outcome]:
        """Log points together with other writes to a run, and return the outcomes of those.

        The points are taken back when the run, whose admission may be ``cached``, is deleted.
        """
        appends = self.metric_log.begin(run, points)
        try:
            outcomes = self.table.write([*others, *(append.put for append in appends)])
        except BaseException as error:
            for append in appends:
                append.failed()
            if isinstance(error, IncompleteWrite) and is_full(error):
                self._take_back(error, appends)
            raise
        for append, outcome in zip(appends, outcomes[len(others) :], strict=True):
            append.written(outcome)
        try:
            reopened = self.run_admission.confirm(run, cached=cached, only_metrics=not others)
        except MlflowException:
            self.metric_log.undo(appends)
            self.run_admission.date_late(run)
            raise
        if reopened:
            # What this process remembers of the log has been folded by the one who sealed the run.
            self.metric_log.retire_writer(run.run_id)
        elif self.metric_log.fold_if_due(appends):
            self.run_admission.date_late(run)
        return outcomes[: len(others)]

    def _take_back(self, incomplete: IncompleteWrite, appends: Sequence[Append]) -> None:
        """Remove what a batch has written to a partition that is full.

        That is its points and its params, which are put on the condition that they are new. A tag
        has no condition: it may have replaced another value, and stays.
        """
        logged = [append.put for append in appends]
        new = [
            write
            for write in incomplete.written
            if isinstance(write, Put) and write.condition is not None and write not in logged
        ]
        self.table.write([Delete(self.table.schema.key_of(put.item)) for put in new])
        # A put that was not made cannot be taken back: it is refused as the first was.
        with suppressed_if_full():
            self.metric_log.undo(appends)
