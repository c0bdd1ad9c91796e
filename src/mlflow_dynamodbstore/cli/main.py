"""``mlflow-dynamodbstore``: the root of the command line."""

from __future__ import annotations

import click

from mlflow_dynamodbstore import __version__
from mlflow_dynamodbstore.cli import (
    alias,
    config,
    estimate,
    experiment,
    explain,
    find,
    fts,
    gateway,
    health,
    primary_metric,
    run,
    stack,
    tag,
    trace,
    transfer_archive,
    transfer_sql,
    ttl,
    workspace,
)
from mlflow_dynamodbstore.cli.common import Root
from mlflow_dynamodbstore.cli.table_options import TABLE_OPTIONS, TableOptions


def _json_comes_after(_ctx: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        raise click.UsageError("--json comes after the command, as in: stats --json")


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_HELP = {option: meaning for option, _, _, meaning in TABLE_OPTIONS}


@click.group(cls=Root, context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="mlflow-dynamodbstore")
@click.option("--name", metavar="TABLE", help=_HELP["--name"])
@click.option("--region", metavar="REGION", help=_HELP["--region"])
@click.option("--endpoint-url", metavar="URL", help=_HELP["--endpoint-url"])
@click.option("--uri", metavar="URI", help=_HELP["--uri"])
@click.option(
    "--tracking-uri", envvar="MLFLOW_TRACKING_URI", hidden=True, help="MLflow's own setting."
)
@click.option("--json", is_flag=True, hidden=True, expose_value=False, callback=_json_comes_after)
@click.pass_context
def main(
    ctx: click.Context,
    name: str | None,
    region: str | None,
    endpoint_url: str | None,
    uri: str | None,
    tracking_uri: str | None,
) -> None:
    """Operate a table that holds MLflow's data.

    --name and --region, --uri, or the variable MLFLOW_TRACKING_URI name the table. These options
    may stand before or after the command.
    """
    ctx.obj = TableOptions(name, region, endpoint_url, uri, tracking_uri)


for command in (
    ttl.ttl,
    config.config,
    fts.fts,
    experiment.experiment,
    explain.explain,
    run.run,
    find.find,
    primary_metric.primary_metric,
    health.doctor,
    health.stats,
    estimate.estimate,
    transfer_archive.copy,
    transfer_archive.dump,
    transfer_archive.load,
    transfer_archive.compare,
    transfer_sql.import_database,
    transfer_sql.export_database,
    tag.tag,
    trace.trace,
    alias.alias,
    workspace.workspace,
    gateway.gateway,
    stack.deploy,
    stack.destroy,
    stack.iam_policy,
):
    main.add_command(command)
