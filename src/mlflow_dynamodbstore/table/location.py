"""Where a table is, and the URI that says so.

========================================  ==================================================
``dynamodb://us-east-1/mlflow``           AWS: region and table
``dynamodb://localhost:8000/mlflow``      any endpoint that speaks DynamoDB's protocol
``dynamodb:///mlflow.ddb``                a file, relative; ``dynamodb:////data/mlflow.ddb``
                                          absolute: as many slashes as ``sqlite:`` takes
========================================  ==================================================

Reading a URI imports neither boto3 nor sqlite3, so that it costs nothing where MLflow looks at
every plugin's scheme.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from mlflow_dynamodbstore.table.errors import BadTableURI

SCHEME = "dynamodb://"
LOCAL_REGION = "us-east-1"
"""The region that a request to an endpoint outside AWS is signed for, unless the URI names one."""

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_TABLE = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_AWS_HOST = re.compile(r"(.*\.)?amazonaws\.com(\.[a-z]{2})?")

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
        """Whether opening it may create the table: a laptop's may, an account's never."""
        return self.kind == "file" or (self.kind == "endpoint" and not self.is_aws)

    @property
    def is_aws(self) -> bool:
        """Whether requests reach AWS, by its own address or by a private one of it."""
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
        if self.region != LOCAL_REGION:
            options["region"] = self.region
        query = f"?{urlencode(options)}" if options else ""
        return f"{SCHEME}{host}/{self.table}{query}"


def parse(uri: str) -> Location:
    """What a table URI says. Raises ``BadTableURI``."""
    if not uri.startswith(SCHEME):
        raise BadTableURI(f"a table URI is {_FORMS}, not {_shown(uri)!r}")
    address, _, query = uri[len(SCHEME) :].partition("?")
    authority, slash, path = address.partition("/")
    if "@" in authority:
        raise BadTableURI(
            "a table URI holds no credentials, they come from the usual AWS chain: "
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
            f"the URI names no file in {'/' + path!r}: write dynamodb:///mlflow.ddb for a file "
            "in this folder, dynamodb:////data/mlflow.ddb for an absolute path"
        )
    return Location("file", path=path, options=_options("file", query))


def _endpoint(authority: str, table: str, query: str) -> Location:
    host, port = _split_port(authority)
    if not (port or host == "localhost" or "." in host or host.startswith("[")):
        raise BadTableURI(
            f"{authority!r} is not an AWS region nor host:port; write {SCHEME}us-east-1/{table}"
        )
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BadTableURI(f"{port!r} is not a port; write {SCHEME}localhost:8000/{table}")
    if host.startswith("[") and not _is_ipv6(host[1:-1]):
        raise BadTableURI(f"{host} is not an IPv6 address; write {SCHEME}[::1]:8000/{table}")
    options = _options("endpoint", query)
    scheme = options.pop("scheme", _default_scheme(authority))
    region = str(options.pop("region", LOCAL_REGION))
    return Location("endpoint", table, region, f"{scheme}://{authority}", options=options)


def _table_name(authority: str, path: str) -> str:
    name = path.removeprefix("/").removesuffix("/")
    if not name:
        raise BadTableURI(f"the URI names no table; write {SCHEME}{authority}/mlflow")
    if "/" in name:
        raise BadTableURI(
            f"a table is one name, not the path {path!r}; write {SCHEME}{authority}/mlflow, "
            "or dynamodb:///mlflow.ddb for a file"
        )
    if not _TABLE.fullmatch(name):
        raise BadTableURI(
            f"{name!r} is not a table name (3 to 255 letters, digits, '_', '.' or '-'); "
            f"write {SCHEME}{authority}/mlflow"
        )
    return name


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
    """A URI fit for a message: whatever could be a password is left out."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


# --- options ------------------------------------------------------------------------------------


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"it is one of {', '.join(choices)}")
        return text

    return read


def _region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise ValueError("it is a region such as eu-west-1")
    return text


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        raise ValueError("it is a number of seconds")
    return float(text)


def _bytes(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d*", text):
        raise ValueError("it is a number of bytes above 0")
    return int(text)


_TRANSPORT = _one_of("direct", "botocore")
OPTIONS: dict[str, dict[str, Callable[[str], str | int | float]]] = {
    "aws": {"transport": _TRANSPORT},
    "endpoint": {"scheme": _one_of("http", "https"), "region": _region, "transport": _TRANSPORT},
    "file": {
        "synchronous": _one_of("FULL", "NORMAL"),
        "index_lag": _seconds,
        "collection_limit": _bytes,
    },
}
_EXAMPLES = {
    "aws": "dynamodb://us-east-1/mlflow?transport=botocore",
    "endpoint": "dynamodb://localhost:8000/mlflow?scheme=https",
    "file": "dynamodb:///mlflow.ddb?synchronous=NORMAL",
}


def _options(kind: str, query: str) -> dict[str, str | int | float]:
    known, found = OPTIONS[kind], dict[str, str | int | float]()
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise BadTableURI(
                f"{name!r} is no option of this URI (it takes {', '.join(known)}); "
                f"write for example {_EXAMPLES[kind]}"
            )
        if name in found:
            raise BadTableURI(
                f"the option {name!r} stands twice in the URI; write for example {_EXAMPLES[kind]}"
            )
        try:
            found[name] = known[name](text)
        except ValueError as error:
            raise BadTableURI(
                f"{name}={text} cannot be read: {error}; write for example {_EXAMPLES[kind]}"
            ) from error
    return found
