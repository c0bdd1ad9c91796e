"""The options that name the table of a command, or MLflow's own variable in their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

import click

from mlflow_dynamodbstore.cli.exits import USAGE, Failure
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.location import SCHEME, Location, parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine

_HINT = (
    "name a table: --name mlflow --region us-east-1, or --uri dynamodb:///mlflow.ddb, "
    "or set MLFLOW_TRACKING_URI"
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
                f"MLFLOW_TRACKING_URI is {self.tracking_uri}, not a table URI; {_HINT}", USAGE
            )
        raise Failure(_HINT, USAGE)

    @property
    def location(self) -> Location:
        return parse(self.uri)

    def table(self, *, may_create: bool = False) -> Table:
        """The table. It must exist, unless the command ``may_create`` it; on AWS none may."""
        if self._table is None:
            self._table = Table(open_engine(self.uri, create=None if may_create else False))
            click.get_current_context().call_on_close(self._table.close)
        return self._table

    def metered(self) -> tuple[Table, MeteredEngine]:
        """The table through an engine that counts requests and units, and that engine."""
        engine = MeteredEngine(self.table().engine)
        return Table(engine, clock=self.table().clock), engine

    def segments(self) -> int:
        """How many segments of the table to read at once; more than one only over a network."""
        return 4 if self.table().engine.capabilities.waits_on_network else 1

    def policies(self, *, may_create: bool = False) -> Policies:
        return Policies(self.table(may_create=may_create))

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


pass_table_options = click.make_pass_decorator(TableOptions)
