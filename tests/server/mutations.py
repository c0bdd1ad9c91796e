"""Requests that resemble those of clients: recorded ones, changed at random."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

JSON = {"Content-Type": "application/json"}
ODD_TEXTS = [
    "",
    " ",
    "a/b",
    "../x",
    "é",
    "😀",
    "a\x00b",
    "x" * 300,
    "x" * 6_001,
    "NaN",
    "123",
    "-1",
    "null",
    "%41",
    "a=b&c",
    "line\nbreak",
]
ODD_NUMBERS: list[Any] = [0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 1.5, 1.0]
ODD_NUMBERS += [1e300, -0.0, 5e-324, 1e19]
ODD_VALUES: list[Any] = [None, True, False, [], {}, [1], {"a": 1}, ["a"], [None], [[]]]
LIMITS: list[Any] = [0, 1, 2, 3, 5, 100, 101, 500, 501, 1000, 2500, 2501, 25_000, 25_001]
LIMITS += [50_000, 50_001, 2**31 - 1, 2**31, -1, "7", "7.0", 7.0, 7.5, "x", "", " 7", True, None]
FILTERS = [
    "metrics.loss > 0.1",
    "metrics.m > 3 and params.a = '1'",
    "metrics.`m` >= 1e-3",
    "params.a IN ('1', '2')",
    "params.a LIKE '%'",
    "params.a ILIKE 'X%'",
    "tags.`mlflow.runName` = 'twin'",
    "attributes.start_time > 4",
    "run_name = 'twin' AND status != 'FAILED'",
    "run_id IN ('{run}')",
    "datasets.name = 'd'",
    "status = 'OK'",
    "trace.text LIKE '%é%'",
    "tags.colour = 'red'",
    "metadata.k = 'v'",
    "metrics.loss",
    "metrics.loss = 'x'",
    "params.a = 1",
    "nothing.a = 'b'",
    "params.a == '1'",
    "params.a = '1' OR params.a = '2'",
    "params.a = '1",
    "attributes.nothing = 'x'",
    "' ' = ' '",
    "AND",
    ";",
]
ORDERS = [
    *("metrics.m DESC", "params.a", "attributes.start_time ASC", "tags.k desc", "timestamp_ms"),
    *("metrics.m DOWN", "nothing", "", "start_time DESC, params.a", "metrics.`m`", "status"),
]
TOKENS = [
    "",
    "x",
    "eyJvZmZzZXQiOiA0fQ==",
    "eyJvZmZzZXQiOiAtMX0=",
    "e30=",
    "AAAA",
    "é",
    "%3D",
    5,
    None,
]


@dataclass(frozen=True)
class Sent:
    """A request; ``body`` is JSON unless ``raw`` is given. Texts may hold ``{run}``."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    raw_query: str | None = None

    def target(self) -> str:
        if self.raw_query is not None:
            return f"{self.path}?{self.raw_query}"
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def content(self) -> bytes | None:
        if self.raw is not None:
            return self.raw
        return None if self.body is None else json.dumps(self.body).encode()


Mutation = Callable[[random.Random, Sent], Sent]


def mutated(rng: random.Random, sent: Sent) -> Sent:
    """A request with some changes; sometimes with none."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        kinds = ANYWHERE + (IN_BODY * 3 if sent.body is not None else IN_QUERY * 3)
        sent = rng.choice(kinds)(rng, sent)
    return sent


# --- bodies -------------------------------------------------------------------------------------


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All containers and keys inside a value."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        for key in value:
            found += [(value, key), *_places(value[key])]
    elif isinstance(value, list):
        for n, one in enumerate(value[:5]):
            found += [(value, n), *_places(one)]
    return found


def _in_body(change: Callable[[random.Random, Any, Any], None]) -> Mutation:
    def mutation(rng: random.Random, sent: Sent) -> Sent:
        body = copy.deepcopy(sent.body)
        places = _places(body)
        if not places:
            return sent
        change(rng, *rng.choice(places))
        return replace(sent, body=body)

    return mutation


def _remove(_rng: random.Random, container: Any, key: Any) -> None:
    del container[key]


def _other_value(rng: random.Random, container: Any, key: Any) -> None:
    container[key] = rng.choice([*ODD_TEXTS, *ODD_NUMBERS, *ODD_VALUES])


def _other_text(rng: random.Random, container: Any, key: Any) -> None:
    if isinstance(container[key], str):
        container[key] = rng.choice(ODD_TEXTS)


def _other_type(rng: random.Random, container: Any, key: Any) -> None:
    value = container[key]
    if isinstance(value, str):
        container[key] = rng.choice([[value], {"value": value}, 5, f'"{value}"'])
    elif isinstance(value, int | float):
        container[key] = rng.choice([str(value), float(value), [value], f" {value}", f"{value}.0"])
    else:
        container[key] = rng.choice([json.dumps(value), [value], None])


def _camel_case(_rng: random.Random, container: Any, key: Any) -> None:
    if isinstance(container, dict) and "_" in key:
        first, *rest = key.split("_")
        container["".join([first, *(word.title() for word in rest)])] = container[key]
        if len(container) % 2:
            del container[key]


def _one_more(rng: random.Random, container: Any, key: Any) -> None:
    if isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    else:
        container[rng.choice(["unknown", "run_uuid", "model_id", "Key"])] = rng.choice(
            ["x", 1, None, "{run}"]
        )


def _many(_rng: random.Random, container: Any, key: Any) -> None:
    if isinstance(container[key], list) and container[key]:
        container[key] = container[key] * 120


def _search(rng: random.Random, sent: Sent) -> Sent:
    """Another limit, filter, order or page."""
    name, value = rng.choice(
        [
            ("max_results", rng.choice(LIMITS)),
            ("filter", rng.choice(FILTERS)),
            ("order_by", rng.sample(ORDERS, rng.choice([0, 1, 1, 2]))),
            ("page_token", rng.choice(TOKENS)),
            ("run_view_type", rng.choice(["ALL", "DELETED_ONLY", "all", 1, 3, 9, "1", None])),
        ]
    )
    if isinstance(sent.body, dict) and ("search" in sent.path or rng.random() < 0.1):
        return replace(sent, body={**sent.body, name: value})
    if sent.query and not isinstance(value, list):
        kept = [one for one in sent.query if one[0] != name]
        return replace(sent, query=(*kept, (name, str(value))))
    return sent


# --- whole requests -----------------------------------------------------------------------------


def _raw_body(rng: random.Random, sent: Sent) -> Sent:
    text = json.dumps(sent.body)
    made = rng.choice(
        [
            b"",
            b"null",
            b"[]",
            b"1",
            text[:-1].encode(),
            text.encode() + b" x",
            json.dumps(text).encode(),
            text.encode("utf-16"),
            b"\xef\xbb\xbf" + text.encode(),
            b"\xff" + text.encode(),
            text.replace('": "', '": "\\ud800').encode(),
            text.replace("1", "NaN").encode(),
            text.replace("1", "Infinity").encode(),
            text.replace("1", "1e999").encode(),
            text.replace("{", '{"key": "first", ').encode(),
            text.replace("{", '{"run_id": "{run}", ', 1).encode(),
            re.sub(r"\b(\d+)\b", r"\1.0", text).encode(),
            re.sub(r"\b(\d+)\b", r"\1e0", text).encode(),
            re.sub(r"\b(\d+)\b", r"0\1", text).encode(),
            re.sub(r"\b(\d+)\b", r"-\1", text).encode(),
            re.sub(r"\b(\d+)\b", "9" * 400, text, count=1).encode(),
            text.replace('": "', '": "\\ud83d\\ude00').encode(),
            text.replace('": "', '": "\\u0000').encode(),
            text.replace('": "', '": "\x01').encode(),
            text.replace('"', "'").encode(),
            text.replace("}", ",}").encode(),
            b" \r\n\t" + text.encode() + b"\n",
            b"{}",
            b"[" * 3_000,
            json.dumps(sent.body, indent=4).encode(),
            json.dumps(sent.body, ensure_ascii=False).encode(),
        ]
    )
    return replace(sent, raw=made)


def _headers(rng: random.Random, sent: Sent) -> Sent:
    more: dict[str, str] = rng.choice(
        [
            {"Content-Type": "application/json; charset=utf-8"},
            {"Content-Type": "application/json;charset=latin-1"},
            {"Content-Type": "text/plain"},
            {"Content-Type": "APPLICATION/JSON"},
            {"Content-Type": ""},
            {"Content-Type": "application/json; charset=utf-16"},
            {"Content-Type": "application/x-www-form-urlencoded"},
            {"Content-Type": "multipart/form-data; boundary=x"},
            {"Content-Type": "application/json, text/plain"},
            {"Content-Encoding": "gzip"},
            {"Content-Encoding": "identity"},
            {"Cookie": "session=x"},
            {"Sec-Fetch-Site": "cross-site"},
            {"X-Forwarded-Host": "elsewhere.example"},
            {"X-Forwarded-Prefix": "/prefix"},
            {"Expect": "100-continue"},
            {"If-None-Match": "*"},
            {"Range": "bytes=0-3"},
            {"Origin": "http://localhost:3000"},
            {"Origin": "https://elsewhere.example"},
            {"Origin": "null"},
            {"Authorization": "Basic YTpi"},
            {"X-MLFLOW-WORKSPACE": "default"},
            {"X-MLFLOW-WORKSPACE": "team-a"},
            {"X-MLFLOW-WORKSPACE": ""},
            {"X-MLFLOW-WORKSPACE": "no such"},
            {"Host": "evil.example"},
            {"Accept": "text/html"},
            {"Accept-Encoding": "gzip"},
            {"X-HTTP-Method-Override": "DELETE"},
        ]
    )
    return replace(sent, headers=sent.headers | more)


def _method(rng: random.Random, sent: Sent) -> Sent:
    return replace(
        sent, method=rng.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "PATCH", "DELETE"])
    )


def _path(rng: random.Random, sent: Sent) -> Sent:
    path = sent.path
    changed = rng.choice(
        [
            path + "/",
            path.upper(),
            "/" + path,
            path.replace("/2.0/", "/3.0/"),
            path.replace("/3.0/", "/2.0/"),
            path.replace("/runs/", "/runs%2F"),
            path + "x",
        ]
    )
    return replace(sent, path=changed)


def _other_prefix(_rng: random.Random, sent: Sent) -> Sent:
    there = "/ajax-api/" if sent.path.startswith("/api/") else "/api/"
    here = "/api/" if there == "/ajax-api/" else "/ajax-api/"
    return replace(sent, path=sent.path.replace(here, there, 1))


def _as_query(_rng: random.Random, sent: Sent) -> Sent:
    """The fields of a body as arguments, and the arguments as a body."""
    if isinstance(sent.body, dict):
        return replace(sent, query=tuple((k, str(v)) for k, v in sent.body.items()))
    return replace(sent, body=dict(sent.query), headers=sent.headers | JSON)


# --- queries ------------------------------------------------------------------------------------


def _without_argument(rng: random.Random, sent: Sent) -> Sent:
    query = list(sent.query)
    if query:
        query.pop(rng.randrange(len(query)))
    return replace(sent, query=tuple(query))


def _other_argument(rng: random.Random, sent: Sent) -> Sent:
    query = list(sent.query)
    if query:
        n = rng.randrange(len(query))
        value = rng.choice([*ODD_TEXTS, "0", "-5", "1.5", "99999999999", "2500", "2501", "TRUE"])
        query[n] = query[n][0], value
    return replace(sent, query=tuple(query))


def _argument_again(rng: random.Random, sent: Sent) -> Sent:
    if not sent.query:
        return sent
    name, value = rng.choice(sent.query)
    more = rng.choice([(name, value), (name, "x"), ("unknown", "1"), (name.upper(), value)])
    return replace(sent, query=(*sent.query, more))


def _odd_query(rng: random.Random, sent: Sent) -> Sent:
    plain = urlencode(sent.query)
    made = rng.choice(
        [
            plain.replace("=", "=%ff", 1),
            plain.replace("=", "=%", 1),
            plain + "&",
            "&" + plain,
            plain.replace("&", ";"),
            plain.replace("=", "%3D", 1),
            plain + "&x",
            "".join(f"&{quote(k)}={quote(v, safe='')}" for k, v in sent.query)[1:],
            "".join(f"&{quote_plus(k)}={quote_plus(v)}" for k, v in sent.query)[1:],
            "",
        ]
    )
    return replace(sent, raw_query=made)


IN_BODY: list[Mutation] = [
    *map(
        _in_body,
        [_remove, _other_value, _other_text, _other_type, _camel_case, _one_more, _many],
    ),
    _raw_body,
    _search,
]
IN_QUERY: list[Mutation] = [
    _without_argument,
    _other_argument,
    _argument_again,
    _odd_query,
    _search,
]
ANYWHERE: list[Mutation] = [_headers, _method, _path, _other_prefix, _as_query]
