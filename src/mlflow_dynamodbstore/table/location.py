"""Where a table is, and the URI that says so.

========================================  ================================================
``dynamodb://us-east-1/mlflow``           AWS: region and table
``dynamodb://localhost:8000/mlflow``      any endpoint that speaks DynamoDB's protocol
``dynamodb:///mlflow.ddb``                a file, by its relative path
``dynamodb:////data/mlflow.ddb``          a file, by its absolute path
========================================  ================================================

A file's URI has as many slashes as one of ``sqlite:``. Reading a URI imports neither boto3 nor
sqlite3, since MLflow looks at the scheme of every plugin.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from mlflow_dynamodbstore.table.errors import BadTableURI

SCHEME = "dynamodb://"
LOCAL_REGION = "us-east-1"
"""The region for which requests to an endpoint are signed, unless the URI names another."""

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_TABLE = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_AWS_HOST = re.compile(
    r"(.*\.)?(amazonaws\.(com(\.cn)?|eu)|api\.aws|api\.amazonwebservices\.(com\.cn|eu))"
)

_FORMS = "dynamodb://us-east-1/mlflow, dynamodb://localhost:8000/mlflow or dynamodb:///mlflow.ddb"


@dataclass(frozen=True)
class Location:
    """Where a table is. Which fields are set depends on ``kind``."""

    kind: Literal["aws", "endpoint", "file"]
    table: str = ""
    region: str = ""
    endpoint: str = ""
    path: str = ""
    options: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def creates_itself(self) -> bool:
        """Whether opening the table creates it when it is absent; on AWS it never does."""
        return self.kind == "file" or (self.kind == "endpoint" and not self.is_aws)

    @property
    def is_aws(self) -> bool:
        """Whether requests go to AWS, by its public address or a private one."""
        if self.kind == "endpoint":
            return bool(_AWS_HOST.fullmatch(urlsplit(self.endpoint).hostname or ""))
        return self.kind == "aws"

    def __str__(self) -> str:
        if self.kind == "file":
            return f"{SCHEME}/{self.path}"
        if self.kind == "aws":
            return f"{SCHEME}{self.region}/{self.table}"
        scheme, _, host = self.endpoint.partition("://")
        options = {}
        if scheme != _default_scheme(host):
            options["scheme"] = scheme
        if self.region != _region_of(_split_port(host)[0]):
            options["region"] = self.region
        query = f"?{urlencode(options)}" if options else ""
        return f"{SCHEME}{host}/{self.table}{query}"


def parse(uri: str) -> Location:
    """The location that a table URI names. Raises ``BadTableURI``."""
    if not uri.startswith(SCHEME):
        raise BadTableURI(f"{_shown(uri)!r} is not a table URI; write {_FORMS}")
    address, _, query = uri[len(SCHEME) :].partition("?")
    authority, slash, path = address.partition("/")
    if "@" in authority:
        raise BadTableURI(
            "a table URI must not hold credentials, which come from the usual AWS chain; "
            "write dynamodb://us-east-1/mlflow"
        )
    if not authority:
        return _file(path, query)
    table = _table_name(authority, slash + path)
    if _REGION.fullmatch(authority):
        return Location("aws", table, authority, options=_options("aws", query))
    return _endpoint(authority, table, query)


def _file(path: str, query: str) -> Location:
    if not path or path.endswith("/"):
        raise BadTableURI(
            f"{'/' + path!r} names no file; write dynamodb:///mlflow.ddb for a file in this "
            "folder, or dynamodb:////data/mlflow.ddb for an absolute path"
        )
    # As in SQLite's URIs: a path from the root may begin with several slashes.
    plain = "/" + path.lstrip("/") if path.startswith("/") else path
    return Location("file", path=plain, options=_options("file", query))


def _endpoint(authority: str, table: str, query: str) -> Location:
    host, port = _split_port(authority)
    if not _is_host(authority):
        raise BadTableURI(
            f"{authority!r} is neither an AWS region nor host:port; "
            f"write {SCHEME}us-east-1/{table} or {SCHEME}localhost:8000/{table}"
        )
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BadTableURI(
            f"{port!r} is not a port (1 to 65535); write {SCHEME}localhost:8000/{table}"
        )
    if host.startswith("[") and not _is_ipv6(host[1:-1]):
        raise BadTableURI(f"{host} is not an IPv6 address; write {SCHEME}[::1]:8000/{table}")
    options = _options("endpoint", query)
    scheme = options.pop("scheme", _default_scheme(authority))
    region = str(options.pop("region", _region_of(host)))
    return Location("endpoint", table, region, f"{scheme}://{authority}", options=options)


def _region_of(host: str) -> str:
    """The region in an address of AWS, ``dynamodb.eu-west-1.amazonaws.com``."""
    if not _AWS_HOST.fullmatch(host):
        return LOCAL_REGION
    return next(filter(_REGION.fullmatch, host.split(".")), LOCAL_REGION)


def _table_name(authority: str, path: str) -> str:
    name = path.removeprefix("/").removesuffix("/")
    if not name:
        whole = f"{authority}/mlflow"
        if not (_REGION.fullmatch(authority) or _is_host(authority)):
            whole = f"us-east-1/{authority}"  # probably the table's name
        raise BadTableURI(f"the URI names no table; write {SCHEME}{whole}")
    if "/" in name:
        raise BadTableURI(
            f"{path!r} is a path, not the name of a table; write {SCHEME}{authority}/mlflow, "
            "or dynamodb:///mlflow.ddb for a file"
        )
    if not _TABLE.fullmatch(name):
        raise BadTableURI(
            f"{name!r} is not a table name (3 to 255 letters, digits, '_', '.' or '-'); "
            f"write {SCHEME}{authority}/mlflow"
        )
    return name


def _is_host(authority: str) -> bool:
    host, port = _split_port(authority)
    return bool(port) or host == "localhost" or "." in host or host.startswith("[")


def _split_port(authority: str) -> tuple[str, str]:
    if authority.startswith("["):
        host, bracket, port = authority.partition("]")
        return host + bracket, port.removeprefix(":")
    host, _, port = authority.partition(":")
    return host, port


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def _default_scheme(authority: str) -> str:
    return "https" if _AWS_HOST.fullmatch(_split_port(authority)[0]) else "http"


def _shown(uri: str) -> str:
    """The URI for a message, without what could be a password."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


# --- options ------------------------------------------------------------------------------------


class Option(NamedTuple):
    """An option of a URI: which texts it takes, what they become, and how to say so."""

    pattern: str
    convert: Callable[[str], str | int | float]
    meaning: str
    example: str


_TRANSPORT = Option("direct|botocore", str, "direct or botocore", "botocore")
OPTIONS: dict[str, dict[str, Option]] = {
    "aws": {"transport": _TRANSPORT},
    "endpoint": {
        "scheme": Option("https?", str, "http or https", "https"),
        "region": Option(_REGION.pattern, str, "an AWS region", "eu-west-1"),
        "transport": _TRANSPORT,
    },
    "file": {
        "synchronous": Option("FULL|NORMAL", str, "FULL or NORMAL", "NORMAL"),
        "index_lag": Option(r"\d+(\.\d*)?|\.\d+", float, "a number of seconds", "2"),
        "collection_limit": Option(r"0*[1-9]\d*", int, "a number of bytes above 0", "1000000"),
        "spread": Option(r"0*[1-9]\d{0,2}", int, "a number of volumes from 1 to 999", "3"),
    },
}
_EXAMPLES = {
    "aws": "dynamodb://us-east-1/mlflow",
    "endpoint": "dynamodb://localhost:8000/mlflow",
    "file": "dynamodb:///mlflow.ddb",
}
_OWNERS = {"aws": "a table on AWS", "endpoint": "a table at an endpoint", "file": "a file"}


def _options(kind: str, query: str) -> dict[str, str | int | float]:
    known, found = OPTIONS[kind], dict[str, str | int | float]()
    for name, text in parse_qsl(query, keep_blank_values=True):
        option = known.get(name)
        if option is None:
            names = ", ".join(known)
            raise BadTableURI(
                f"unknown option {name!r}: the URI of {_OWNERS[kind]} takes {names}; "
                f"{_example(kind, next(iter(known)))}"
            )
        if name in found:
            raise BadTableURI(f"the URI gives the option {name!r} twice; {_example(kind, name)}")
        if not re.fullmatch(option.pattern, text):
            raise BadTableURI(
                f"{name}={text} is not valid: {name} is {option.meaning}; {_example(kind, name)}"
            )
        found[name] = option.convert(text)
    return found


def _example(kind: str, name: str) -> str:
    return f"write for example {_EXAMPLES[kind]}?{name}={OPTIONS[kind][name].example}"
