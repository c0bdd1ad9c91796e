"""The native routes answer as MLflow's own: thousands of requests, to both on the same table.

Requests are recorded from MLflow's client, its pages and its REST tests (``record.py``), some are
written by hand, and all are changed at random. A request that writes goes to one run of each
server, and both runs must be alike afterwards; one that reads is sent to both as it is.
"""

from __future__ import annotations

import json
import os
import random
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auth.server import (
    ADMIN,
    ADMIN_PASSWORD,
    CONFIGURATION,
    USER_PASSWORD,
    _password_line,
)
from tests.server.mutations import JSON, Sent, mutated
from tests.server.pair import Answer, Client, Pair, serving_pair
from tests.server.record import NOTED, RECORDED

FEWER = 200
ROUNDS = int(os.environ.get("ROUTES_FUZZ", "1500"))
API, API3 = "/api/2.0/mlflow/", "/api/3.0/mlflow/"
AJAX, AJAX3 = "/ajax-api/2.0/mlflow/", "/ajax-api/3.0/mlflow/"
LAYOUT = frozenset({"content-length"})  # white space of JSON is not compared

WRITTEN_BY_HAND = [
    # The pages of the UI.
    Sent(
        "POST",
        AJAX + "runs/search",
        body={
            "experiment_ids": ["{experiment}"],
            "filter": "",
            "run_view_type": "ACTIVE_ONLY",
            "max_results": 100,
            "order_by": ["attributes.start_time DESC"],
        },
    ),
    Sent(
        "GET",
        AJAX + "metrics/get-history-bulk-interval",
        (("run_ids", "{shared}"), ("run_ids", "{run}"), ("metric_key", "m"), ("max_results", "32")),
    ),
    Sent(
        "GET",
        AJAX + "metrics/get-history-bulk-interval",
        (
            ("run_ids", "{shared}"),
            ("metric_key", "m"),
            ("start_step", "2"),
            ("end_step", "9"),
            ("max_results", "5"),
        ),
    ),
    Sent("GET", AJAX + "runs/get", (("run_id", "{shared}"),)),
    Sent("GET", AJAX + "experiments/get", (("experiment_id", "{experiment}"),)),
    Sent("GET", AJAX + "metrics/get-history", (("run_id", "{shared}"), ("metric_key", "m"))),
    Sent(
        "GET",
        AJAX + "metrics/get-history",
        (("run_uuid", "{shared}"), ("metric_key", "m"), ("max_results", "7")),
    ),
    Sent(
        "POST",
        AJAX3 + "traces/search",
        body={
            "locations": [
                {
                    "type": "MLFLOW_EXPERIMENT",
                    "mlflow_experiment": {"experiment_id": "{experiment}"},
                }
            ],
            "max_results": 25,
            "order_by": ["timestamp_ms DESC"],
        },
    ),
    Sent("GET", AJAX3 + "traces/{trace}"),
    Sent("GET", AJAX3 + "traces/get", (("trace_id", "{trace}"), ("allow_partial", "true"))),
    Sent("GET", AJAX3 + "traces/batchGet", (("trace_ids", "{trace}"),)),
    # Beside the routes.
    Sent("GET", API + "runs/get", (("run_id", "0" * 32),)),
    Sent("GET", API3 + "traces/tr-" + "0" * 32),
    Sent("POST", API + "runs/log-batch", body={"run_id": "{run}"}),
    Sent("POST", API + "runs/update", body={"run_id": "{run}", "status": 3, "end_time": "17"}),
    Sent("POST", API + "runs/log-metric", body={"run_uuid": "{run}", "key": "k", "value": 1}),
    Sent("POST", API + "runs/search", raw=b"[" * 3_000),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with serving_pair(tmp_path_factory.mktemp("native")) as servers:
        yield servers


class World:
    """What requests are about: an experiment that both read, and a run of each to write to."""

    def __init__(self, pair: Pair, headers: dict[str, str] | None = None) -> None:
        self.pair = pair
        self.headers = headers or {}
        made = self.post(pair.theirs, "experiments/create", {"name": f"w {random.random()}"})
        self.experiment = made["experiment_id"]
        self.shared = self.new_run(pair.theirs)
        points = [
            {"key": "m", "value": n / 7, "timestamp": 1_700_000_000_000 + n, "step": n}
            for n in range(50)
        ]
        odd = [
            {"key": name, "value": value, "timestamp": 1, "step": 0}
            for name, value in (("n", "NaN"), ("i", "Infinity"), ("whole", 3), ("zero", -0.0))
        ]
        body = {"run_id": self.shared, "metrics": [*points, *odd]}
        self.post(pair.theirs, "runs/log-batch", body)
        for n in range(12):
            run = self.new_run(pair.theirs)
            body = {"run_id": run, "params": [{"key": "a", "value": str(n % 3)}]}
            self.post(pair.theirs, "runs/log-batch", body)
            if n % 2:
                ended = {"run_id": run, "status": "FINISHED", "end_time": n}
                self.post(pair.theirs, "runs/update", ended)
        dataset = {"name": "d", "digest": "1", "source_type": "local", "source": "{}"}
        inputs = {"run_id": run, "datasets": [{"tags": [], "dataset": dataset}]}
        self.post(pair.theirs, "runs/log-inputs", inputs)
        self.trace = f"tr-{random.getrandbits(128):032x}"
        self.twins = self.new_run(pair.ours), self.new_run(pair.theirs)

    def post(self, client: Client, path: str, body: Any) -> Any:
        answer = client.send("POST", API + path, json.dumps(body).encode(), JSON | self.headers)
        assert answer.status == 200, answer
        return answer.json()

    def new_run(self, client: Client) -> str:
        body = {"experiment_id": self.experiment, "start_time": 5, "run_name": "twin"}
        run: str = self.post(client, "runs/create", body)["run"]["info"]["run_id"]
        return run

    def add_trace(self) -> None:
        info = {
            "trace_id": self.trace,
            "trace_location": {
                "type": "MLFLOW_EXPERIMENT",
                "mlflow_experiment": {"experiment_id": self.experiment},
            },
            "request_time": "2026-01-02T03:04:05.678Z",
            "execution_duration": "1.5s",
            "state": "OK",
            "request_preview": "é",
            "trace_metadata": {"k": "v" * 300, "mlflow.traceInputs": "{}"},
            "tags": {"colour": "red"},
        }
        body = json.dumps({"trace": {"trace_info": info}}).encode()
        answer = self.pair.theirs.send("POST", API3 + "traces", body, JSON | self.headers)
        assert answer.status == 200, answer

    def send(self, which: int, sent: Sent) -> Answer:
        """Send a request to one of the servers, about its own run."""
        client = (self.pair.ours, self.pair.theirs)[which]
        values = {
            "{run}": self.twins[which],
            "{shared}": self.shared,
            "{experiment}": self.experiment,
            "{trace}": self.trace,
        }
        target, body = sent.target(), sent.content()
        for name, value in values.items():
            target = target.replace(name, value).replace(
                name.replace("{", "%7B").replace("}", "%7D"), value
            )
            body = None if body is None else body.replace(name.encode(), value.encode())
        headers = dict(sent.headers)
        if body is not None and "Content-Type" not in headers:
            headers |= JSON
        target = target.replace(" ", "%20").encode("ascii", "ignore").decode()
        return client.send(sent.method, target, body, self.headers | headers)

    def twin_states(self) -> list[Any]:
        """Both runs, with their histories, without what tells them apart."""
        states = []
        for run in self.twins:
            client = self.pair.theirs
            got = client.send("GET", f"{API}runs/get?run_id={run}", None, self.headers)
            state = got.json()
            for key in sorted({m["key"] for m in state["run"]["data"].get("metrics", [])}):
                query = Sent("GET", API + "metrics/get-history", (("run_id", run),))
                path = f"{query.target()}&metric_key={_quoted(key)}"
                history = client.send("GET", path, None, self.headers).json()
                state[key] = history
            states.append(plain(json.dumps(state), self.twins))
        return states


def _quoted(key: str) -> str:
    from urllib.parse import quote

    return quote(key, safe="")


def plain(text: str, twins: tuple[str, str]) -> Any:
    """An answer without what differs between two runs that are alike, as canonical JSON."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {of(key): of(one) for key, one in value.items()}
        if isinstance(value, list):
            return [of(one) for one in value]
        if not isinstance(value, str):
            return value
        for twin in twins:
            value = value.replace(twin, "RUN")
        value = re.sub(r"\b[0-9a-f]{32}\b", "ID", value)
        return re.sub(r"^[a-z]+-[a-z]+-[0-9]{1,4}$", "NAME", value)  # names that MLflow makes up

    return json.dumps(of(json.loads(text)), sort_keys=True)


def compared(world: World, sent: Sent) -> Answer:
    """Send a request to both and compare the answers; returns ours."""
    ours, theirs = world.send(0, sent), world.send(1, sent)
    where = f"{sent}\n{ours}\n{theirs}"
    assert ours.status == theirs.status, where
    skipped = LAYOUT
    assert [h for h in ours.headers if h[0] not in skipped] == [
        h for h in theirs.headers if h[0] not in skipped
    ], where
    if (ours.header("content-type") or "").startswith("application/json") and theirs.body:
        texts = [plain(answer.body.decode(), world.twins) for answer in (ours, theirs)]
        assert texts[0] == texts[1], where
    else:
        assert ours.body.replace(world.twins[0].encode(), b"RUN") == theirs.body.replace(
            world.twins[1].encode(), b"RUN"
        ), where
    return ours


def recorded() -> list[Sent]:
    return [
        Sent(one["method"], one["path"], tuple(map(tuple, one["query"])), one["body"])
        for file in (RECORDED, NOTED)
        for one in map(json.loads, file.read_text().splitlines())
    ]


def answered_natively(answer: Answer) -> bool:
    """MLflow's own answers are indented, but for its newest ones."""
    return answer.body.startswith(b"{") and b"\n" not in answer.body


def test_what_clients_send_is_answered_alike_and_natively(pair: Pair):
    world = World(pair)
    world.add_trace()
    not_native = []
    for sent in recorded():
        answer = compared(world, sent)
        if answer.status == 200 and not answered_natively(answer):
            not_native.append(sent)
    assert not_native == []
    for sent in WRITTEN_BY_HAND:
        compared(world, sent)
    assert_twins_are_alike(world)


def test_changed_requests_are_answered_alike(pair: Pair):
    statuses = compare_changed(pair, ROUNDS, seed=20)
    assert statuses[200] > ROUNDS // 4
    assert statuses[400] > ROUNDS // 10


def test_requests_in_workspaces_are_answered_alike(tmp_path: Path):
    with serving_pair(tmp_path, MLFLOW_ENABLE_WORKSPACES="true") as servers:
        body = json.dumps({"name": "team-a"}).encode()
        assert servers.theirs.send("POST", API3 + "workspaces", body, JSON).status in (200, 201)
        for workspace in ("default", "team-a"):
            headers = {"X-MLFLOW-WORKSPACE": workspace}
            compare_changed(servers, FEWER, seed=21, headers=headers)
        stranger = World(servers, {"X-MLFLOW-WORKSPACE": "default"})
        stranger.headers = {"X-MLFLOW-WORKSPACE": "team-a"}  # nothing of it is there
        assert {compared(stranger, sent).status for sent in recorded()} & {400, 404}


def test_requests_of_users_are_answered_alike(tmp_path: Path):
    (tmp_path / "auth.ini").write_text(CONFIGURATION + _password_line(ADMIN_PASSWORD))
    settings = {
        "MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": ADMIN_PASSWORD,
    }
    with serving_pair(tmp_path, auth=True, **settings) as servers:
        admin = authorization(ADMIN, ADMIN_PASSWORD)
        for name in ("reader", "nobody"):
            body = json.dumps({"username": name, "password": USER_PASSWORD}).encode()
            made = servers.theirs.send("POST", API + "users/create", body, JSON | admin)
            assert made.status == 200, made
        compare_changed(servers, FEWER, seed=22, headers=admin)
        for name, permission in (("reader", "READ"), ("nobody", None)):
            world = World(servers, admin)
            if permission is not None:
                grant = {
                    "username": name,
                    "resource_type": "experiment",
                    "resource_id": world.experiment,
                    "permission": permission,
                }
                grant_to(servers, admin, grant)
            world.headers = authorization(name, USER_PASSWORD)
            statuses = Counter(compared(world, sent).status for sent in recorded())
            assert statuses[403] > 5, statuses
            # A search finds nothing for those who may read nothing.
            searches = sum("search" in sent.path for sent in recorded())
            assert (statuses[200] > searches) == (permission is not None), statuses
        world.headers = {}
        assert {compared(world, sent).status for sent in recorded()} == {401}
        world.headers = authorization(ADMIN, "wrong")
        assert compared(world, recorded()[0]).status == 401


def test_a_static_prefix_is_a_part_of_the_paths(tmp_path: Path):
    with serving_pair(tmp_path, _MLFLOW_STATIC_PREFIX="/prefix") as servers:
        for prefix in ("/prefix", ""):
            path = f"{prefix}{API}experiments/get?experiment_id=0"
            ours, theirs = servers.send("GET", path)
            assert ours.status == theirs.status
            assert answered_natively(ours) == (prefix != "")
            page = servers.ours.send("GET", f"{prefix}/dynamodb")
            assert (page.status, b"The table behind MLflow" in page.body) == (
                (200, True) if prefix else (404, False)
            )


def compare_changed(
    pair: Pair, rounds: int, seed: int, headers: dict[str, str] | None = None
) -> Counter[int]:
    rng = random.Random(seed)
    templates = [*recorded(), *WRITTEN_BY_HAND]
    statuses: Counter[int] = Counter()
    for begun in range(0, rounds, 300):
        world = World(pair, headers)
        world.add_trace()
        for _ in range(min(300, rounds - begun)):
            statuses[compared(world, mutated(rng, rng.choice(templates))).status] += 1
        assert_twins_are_alike(world)
    return statuses


def assert_twins_are_alike(world: World) -> None:
    ours, theirs = world.twin_states()
    assert ours == theirs


def authorization(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def grant_to(pair: Pair, admin: dict[str, str], grant: dict[str, str]) -> None:
    body = json.dumps(grant).encode()
    given = pair.theirs.send("POST", API3 + "users/permissions/grant", body, JSON | admin)
    assert given.status == 200, given
