"""Start MLflow's server and UI on a table: ``python -m mlflow_dynamodbstore.serve``.

It prints where it listens and where the data lies, then becomes ``mlflow server``. Settings that
MLflow reads from the environment (allowed hosts, telemetry, workers' options, ...) keep working.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mlflow_dynamodbstore.shared.policies import DEFAULTS, Policies
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine


@dataclass(frozen=True)
class Server:
    """Where a server listens and where it keeps its data."""

    host: str
    port: int
    workers: int
    table: str
    artifacts: str

    def command(self) -> list[str]:
        """The ``mlflow server`` command, run by this Python."""
        return [
            *(sys.executable, "-m", "mlflow", "server", "--app-name", "dynamodb"),
            *("--backend-store-uri", self.table),
            *("--registry-store-uri", self.table),
            # Clients send artifacts through the server, so they need no access to the folder.
            *("--serve-artifacts", "--artifacts-destination", self.artifacts),
            *("--host", self.host, "--port", str(self.port), "--workers", str(self.workers)),
        ]

    @property
    def url(self) -> str:
        """The address for a browser, with an IPv6 host in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def banner(self) -> str:
        """What is printed before the server's own log begins."""
        return (
            f"MLflow   {self.url}\n"
            f"table    {self.table}\n"
            f"files    {self.artifacts}\n"
            f"connect  export MLFLOW_TRACKING_URI={self.url}\n"
            f"expires  {self.expiry()}"
        )

    def expiry(self) -> str:
        """What expires, and the command that changes it."""
        days = retention(self.table)
        kinds = {
            "traces": days["trace_retention_days"],
            "metric history": days["metric_history_retention_days"],
            "deleted runs": days["soft_deleted_retention_days"],
        }
        expiring = ", ".join(f"{kind} after {n} days" for kind, n in kinds.items() if n)
        if not expiring:
            return "nothing: everything is kept until it is deleted"
        return (
            f"{expiring}\n         keep everything: "
            f"mlflow-dynamodbstore ttl set --keep-forever --uri {self.table}"
        )


def retention(uri: str) -> Mapping[str, Any]:
    """The retention policies of a table in a file; the defaults for others, and for a new file."""
    try:
        if parse(uri).kind != "file":  # it may take long to answer
            return DEFAULTS
        table = Table(open_engine(uri, create=False))
    except TableError:  # a new file, or the server says what is wrong with it
        return DEFAULTS
    try:
        return Policies(table).all()
    finally:
        table.close()


def embedded_table(data: Path) -> str:
    """The URI of the embedded table inside a data folder."""
    if "?" in str(data):
        raise click.ClickException(
            f"the folder {data} has a '?' in its path, which begins the options of a URI; "
            "choose another, for example: make serve DATA=/tmp/mlflow"
        )
    return f"dynamodb:///{data / 'mlflow.ddb'}"


def check_table_uri(uri: str | None) -> None:
    """Refuse the URI of another store, which MLflow would serve without this package."""
    try:
        if uri is not None:
            parse(uri)
    except TableError as error:
        raise click.ClickException(f"--table: {error}") from error


def check_port_is_free(host: str, port: int) -> None:
    """Refuse a port in use now; MLflow's workers would only fail long after the banner."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except socket.gaierror as error:
            raise click.ClickException(
                f"cannot listen on {host} ({error.strerror}); check --host"
            ) from error
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {host}:{port} ({error.strerror}); "
                f"choose another port, for example: make serve PORT={port + 1}"
            ) from error


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=5000,
    show_default=True,
    help="Port to listen on.",
)
@click.option("--workers", default=2, show_default=True, help="Number of server processes.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Folder for the embedded table and the artifacts.",
)
@click.option("--table", default=None, help="Table URI, instead of a file in the data folder.")
@click.option("--artifacts", default=None, help="Artifact URI, instead of the data folder.")
@click.argument("mlflow_options", nargs=-1, type=click.UNPROCESSED)
def main(
    host: str,
    port: int,
    workers: int,
    data: Path,
    table: str | None,
    artifacts: str | None,
    mlflow_options: tuple[str, ...],
) -> None:
    """Start MLflow's server and UI on a table.

    Options after -- are passed to `mlflow server`.
    """
    check_table_uri(table)
    check_port_is_free(host, port)
    folder = data.resolve()
    server = Server(
        host=host,
        port=port,
        workers=workers,
        table=table or embedded_table(folder),
        artifacts=artifacts or str(folder / "artifacts"),
    )
    if table is None or artifacts is None:
        folder.mkdir(parents=True, exist_ok=True)
    click.echo(server.banner())
    sys.stdout.flush()
    command = [*server.command(), *mlflow_options]
    os.execv(command[0], command)  # noqa: S606 - becomes the server


if __name__ == "__main__":
    main()
