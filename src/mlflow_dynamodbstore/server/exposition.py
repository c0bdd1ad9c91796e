"""``/metrics``: the counters of all workers in the text format of Prometheus.

It exists where ``mlflow server`` was started with ``--expose-prometheus``. What MLflow exposes
itself, with the library that it needs for that, stands before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.table.counters import HITS, LIVE_SECONDS, MEANINGS, MISSES, Counted

PREFIX = "mlflow_dynamodbstore_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
OF_CACHES = frozenset({HITS, MISSES})


def expose(flask: Any, counters: Callable[[], ServerCounters], prefix: str = "") -> None:
    """Give Flask the route, or add to the one that MLflow has."""
    theirs = [rule.endpoint for rule in flask.url_map.iter_rules() if rule.rule == PATH]
    if theirs:
        view = flask.view_functions[theirs[0]]
        flask.view_functions[theirs[0]] = _added_to(flask, view, counters)
        return

    def metrics() -> Any:
        return flask.response_class(exposition(counters()), content_type=CONTENT_TYPE)

    flask.add_url_rule(prefix + PATH, "mlflow_dynamodbstore_metrics", metrics)


def _added_to(
    flask: Any, view: Callable[..., Any], counters: Callable[[], ServerCounters]
) -> Callable[..., Any]:
    def metrics(**arguments: Any) -> Any:
        response = flask.make_response(view(**arguments))
        if response.status_code == 200:
            response.set_data(response.get_data() + exposition(counters()).encode())
        return response

    return metrics


def exposition(server: ServerCounters) -> str:
    """The counters of a server as text."""
    return "".join(f"{line}\n" for line in _lines(server))


def _lines(server: ServerCounters) -> Iterator[str]:
    by_counter: dict[str, list[tuple[Counted, float]]] = defaultdict(list)
    for key, amount in sorted(server.totals.items()):
        by_counter[key.counter].append((key, amount))
    for counter, meaning in MEANINGS.items():
        name = f"{PREFIX}{counter}_total"
        yield f"# HELP {name} {meaning}"
        yield f"# TYPE {name} counter"
        for key, amount in by_counter[counter]:
            yield f"{name}{{{_labels(key)}}} {amount:.10g}"
    minutes = f"{LIVE_SECONDS / 60:g}"
    for name, meaning, value in (
        ("live_runs", f"Runs written to in the last {minutes} minutes.", server.live_runs),
        ("processes", "Processes whose counters are added up.", server.processes),
    ):
        yield f"# HELP {PREFIX}{name} {meaning}"
        yield f"# TYPE {PREFIX}{name} gauge"
        yield f"{PREFIX}{name} {value}"


def _labels(key: Counted) -> str:
    labels = {"cache" if key.counter in OF_CACHES else "operation": key.operation}
    if key.request:
        labels["request"] = key.request
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
