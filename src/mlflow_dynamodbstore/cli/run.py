"""``run``: what a run has read and produced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, Group
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

    from mlflow_dynamodbstore.tracking.logged_model_search import LoggedModelSearch


@click.group(cls=Group)
def run() -> None:
    """List what a run has read and produced."""


@run.command(loads=MLFLOW)
@click.argument("run_id")
@pass_table_options
def datasets(options: TableOptions, run_id: str, json: bool) -> None:
    """List the datasets that a run has read."""
    from mlflow_dynamodbstore.shared.context import Context
    from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
    from mlflow_dynamodbstore.shared.run_lookup import RunLookup
    from mlflow_dynamodbstore.tracking.inputs import Inputs
    from mlflow_dynamodbstore.tracking.run_admission import RunAdmission

    context = Context.on(options.table())
    experiments = ExperimentLookup(context)
    runs = RunLookup(context, experiments)
    runs.get(run_id)
    inputs = Inputs(context, experiments, runs, RunAdmission(context, experiments, runs))
    found = inputs.list_datasets(run_id)
    facts = [
        {"name": one.name, "digest": one.digest, "source_type": one.source_type} for one in found
    ]
    _list(f"Datasets of {escape(run_id)}", ("name", "digest", "source_type"), facts, json=json)


@run.command(loads=MLFLOW)
@click.argument("run_id")
@pass_table_options
def models(options: TableOptions, run_id: str, json: bool) -> None:
    """List the models that were logged during a run, in the run's experiment."""
    from mlflow_dynamodbstore.shared.context import Context
    from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
    from mlflow_dynamodbstore.shared.places import experiment_id_of
    from mlflow_dynamodbstore.shared.run_lookup import RunLookup
    from mlflow_dynamodbstore.tracking.logged_model_search import LoggedModelSearch
    from mlflow_dynamodbstore.tracking.run_models import RunModels

    context = Context.on(options.table())
    experiments = ExperimentLookup(context)
    runs = RunLookup(context, experiments)
    home = experiment_id_of(runs.get(run_id))
    search = LoggedModelSearch(context, experiments, RunModels(context, runs))
    facts = [
        {"name": model.name, "model_id": model.model_id, "status": model.status.value}
        for model in _models_of(search, home, run_id)
    ]
    _list(f"Models of {escape(run_id)}", ("name", "model_id", "status"), facts, json=json)


def _models_of(search: LoggedModelSearch, experiment_id: str, run_id: str) -> Iterator[LoggedModel]:
    wanted, token = f"source_run_id = '{run_id}'", None
    while True:
        page = search.search_logged_models([experiment_id], wanted, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _list(title: str, columns: tuple[str, ...], facts: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        output.as_json(facts)
        return
    rows = [[escape(str(one[column])) for column in columns] for one in facts]
    output.grid(title, columns, rows)
