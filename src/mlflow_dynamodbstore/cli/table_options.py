"""The options that name the table of a command, or MLflow's own variable in their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.exits import USAGE, Failure
from mlflow_dynamodbstore.table.errors import TableMissing
from mlflow_dynamodbstore.table.location import SCHEME, Location, parse

if TYPE_CHECKING:
    from mlflow_dynamodbstore.shared.policies import Policies
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine

_NAME_IT = "name a table: --name mlflow --region us-east-1, or --uri dynamodb:///mlflow.ddb"
_HINT = f"{_NAME_IT}, or set MLFLOW_TRACKING_URI"

TABLE_OPTIONS = (
    ("--name", "name", "TABLE", "Name of a DynamoDB table."),
    ("--region", "region", "REGION", "AWS region of the table."),
    ("--endpoint-url", "endpoint_url", "URL", "Endpoint other than AWS, with --name."),
    ("--uri", "uri_option", "URI", "Table URI, such as dynamodb:///mlflow.ddb."),
)


@dataclass
class TableOptions:
    """What the command line says about its table, which is opened when it is first needed."""

    name: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    uri_option: str | None = None
    tracking_uri: str | None = None
    _table: Table | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """The URI of the table. Raises ``Failure`` unless the options name exactly one."""
        if self.uri_option and (self.name or self.region or self.endpoint_url):
            raise Failure("give --uri without --name, --region and --endpoint-url", USAGE)
        if self.uri_option:
            return self.uri_option
        if self.name:
            return self._named(self.name)
        if self.tracking_uri and not (self.region or self.endpoint_url):
            if self.tracking_uri.startswith(SCHEME):
                return self.tracking_uri
            raise Failure(
                f"MLFLOW_TRACKING_URI is {self.tracking_uri}, which is not a table URI; {_NAME_IT}",
                USAGE,
            )
        raise Failure(_HINT, USAGE)

    @property
    def location(self) -> Location:
        return parse(self.uri)

    def check(self, *, creates: bool) -> None:
        """Tell what is wrong with the options, or that the file is missing, without opening it."""
        location = self.location
        if location.kind == "file" and not creates and not Path(location.path).exists():
            raise TableMissing(
                f"there is no table at {Path(location.path).absolute()}; check the path, or start "
                f"a server on {location}, which creates it"
            )

    def table(self, *, may_create: bool = False) -> Table:
        """The table. It must exist, unless the command ``may_create`` it; on AWS none may."""
        if self._table is None:
            from mlflow_dynamodbstore.table.table import Table
            from mlflow_dynamodbstore.table.uri import open_engine

            with output.spinner(f"opening {self.location}"):
                engine = open_engine(self.uri, create=None if may_create else False)
            self._table = Table(engine)
            click.get_current_context().call_on_close(self._table.close)
        return self._table

    def metered(self) -> tuple[Table, MeteredEngine]:
        """The table through an engine that counts requests and units, and that engine."""
        from mlflow_dynamodbstore.table.table import Table
        from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine

        engine = MeteredEngine(self.table().engine)
        return Table(engine, clock=self.table().clock), engine

    def segments(self) -> int:
        """How many segments of the table to read at once; more than one only over a network."""
        return 4 if self.table().engine.capabilities.waits_on_network else 1

    def policies(self, *, may_create: bool = False) -> Policies:
        table = self.table(may_create=may_create)
        from mlflow_dynamodbstore.shared.policies import Policies

        return Policies(table)

    def take(self, field_name: str, option: str, value: str) -> None:
        """Note an option that stands after the command."""
        before = getattr(self, field_name)
        if before not in (None, value):
            raise click.UsageError(f"{option} is given twice: {before} and {value}")
        setattr(self, field_name, value)

    def _named(self, name: str) -> str:
        if self.endpoint_url:
            address = urlsplit(self.endpoint_url)
            if address.scheme not in ("http", "https") or not address.netloc:
                raise Failure("--endpoint-url must look like http://localhost:8000", USAGE)
            region = f"&region={self.region}" if self.region else ""
            return f"{SCHEME}{address.netloc}/{name}?scheme={address.scheme}{region}"
        if not self.region:
            raise Failure(
                f"--name {name} needs --region us-east-1, or --endpoint-url http://localhost:8000",
                USAGE,
            )
        return f"{SCHEME}{self.region}/{name}"


def table_option(
    option: str, field_name: str, metavar: str, meaning: str, *, hidden: bool = False
) -> click.Option:
    """An option that names the table, for a group or a command below the root."""

    def take(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        found = ctx.find_object(TableOptions)
        if value is not None and found is not None:
            found.take(field_name, option, value)

    # Commands have arguments called `name`, so these parameters need names of their own.
    return click.Option(
        [option, f"table_{field_name}"],
        metavar=metavar,
        help=meaning,
        hidden=hidden,
        expose_value=False,
        callback=take,
    )


pass_table_options = click.make_pass_decorator(TableOptions)
