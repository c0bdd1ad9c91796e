"""What is added to a full partition is refused whole; ending and deleting still work in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    LoggedModelInput,
    LoggedModelParameter,
    LoggedModelTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.entities.assessment import Feedback
from mlflow.entities.assessment_source import AssessmentSource
from mlflow.entities.span import Span
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException
from mlflow.tracing.utils import build_otel_context
from opentelemetry.sdk.trace import ReadableSpan

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.volume_states import states_in
from mlflow_dynamodbstore.table.values import Item, Key
from tests.stores import everything_in, open_tracking_store
from tests.table.fakes import FakeTime

pytestmark = pytest.mark.one_volume(reason="each test fills the first volume")

LARGE = 10_000_000
OPTIONS = f"synchronous=NORMAL&collection_limit={LARGE}"
ROOMS = (0, 20, 60, 100, 120, 200, 400, 800, 1600, 3000, 5000, 8000, 12_000, 20_000, 40_000, 80_000)
MORE_ROOMS = (160_000, 320_000, 480_000, 640_000, 1_000_000, 2_000_000)
LIVE, ENDED, FILLER = 0, 1, 2
TRACE, SPANNED, NEW = (f"tr-{n:032x}" for n in (1, 2, 3))


class Filled:
    """A store with something of each kind, whose partition has as much room as a test says."""

    def __init__(self, folder: Path) -> None:
        self.store = open_tracking_store(folder, FakeTime(), options=OPTIONS)
        self.runs = [self._begin_run(n) for n in (1, 2, 3)]
        self.store.update_run_info(self.runs[ENDED], RunStatus.FINISHED, 9, None)
        self.store.start_trace(trace_info(TRACE, TraceState.IN_PROGRESS))
        self.store.log_spans("0", spans(SPANNED, 1, 100))
        tags, params = [LoggedModelTag("a", "b")], [LoggedModelParameter("p", "1")]
        self.model = self.store.create_logged_model("0", "m", self.runs[LIVE], tags, params)
        for n in range(12):  # so that what does not fit here fits elsewhere
            many = [Param(f"filler{n}_{k}", text(5_000)) for k in range(30)]
            self.store.log_batch(self.runs[FILLER], [], many, [])

    def _begin_run(self, start: int) -> str:
        run = self.store.create_run("0", "u", start, [RunTag("t", "v")], f"run {start}")
        run_id = str(run.info.run_id)
        metrics = [Metric(f"m{n}", n, 1, 1) for n in range(3)]
        params = [Param(f"p{n}", text(100)) for n in range(10)]
        self.store.log_batch(run_id, metrics, params, [RunTag("a", "b")])
        return run_id

    def leave(self, room: int) -> None:
        """Let the first partition take so many bytes more."""
        writer = self.store.table.engine._writer  # type: ignore[attr-defined]
        writer._collection_limit = LARGE
        share = self.store.table.collection_share("EXP#0")
        assert share is not None
        writer._collection_limit = round(share * LARGE) + room

    def contents(self) -> dict[Key, Item]:
        """All items, without what nobody sees: counters, emptied logs, and the volumes."""
        found = {}
        for item in everything_in(self.store.table):
            key = Key(str(item["PK"]), str(item["SK"]))
            if not key.sk.startswith("LIVE#") and key.pk.startswith(("EXP#0", "TRACE#")):
                found[key] = {n: v for n, v in item.items() if not n.startswith(UNSEEN)}
        return found


UNSEEN = ("generation", "edits", "measured", "volumes")


def text(size: int) -> str:
    return os.urandom(size // 2).hex()


def trace_info(
    trace_id: str,
    state: TraceState = TraceState.OK,
    tags: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
) -> TraceInfo:
    return TraceInfo(
        trace_id,
        TraceLocation.from_experiment_id("0"),
        1_000,
        state,
        execution_duration=5,
        client_request_id="client",
        tags=tags or {},
        trace_metadata=metadata or {},
    )


def spans(trace_id: str, count: int, size: int, first: int = 1) -> list[Span]:
    number = int(trace_id[3:], 16)
    return [
        Span(
            ReadableSpan(
                name="s",
                context=build_otel_context(number, first + n),
                start_time=10**9,
                end_time=2 * 10**9,
                attributes={
                    "mlflow.traceRequestId": json.dumps(trace_id),
                    "mlflow.spanInputs": json.dumps(text(size)),
                },
            )
        )
        for n in range(count)
    ]


LONG_TAGS = {f"t{n}": text(3_000) for n in range(3)}
MANY_TAGS = {f"t{n}": text(700) for n in range(300)}
JUDGE = AssessmentSource("HUMAN", "me")
MODEL_TAGS = [LoggedModelTag(f"k{n}", text(3_000)) for n in range(4)]
MODEL_PARAMS = [LoggedModelParameter(f"k{n}", text(3_000)) for n in range(4)]
BATCH = (
    [Metric(f"q{n}", 1, 1, 1) for n in range(3)],
    [Param(f"q{n}", text(300)) for n in range(5)],
    [RunTag("a", text(300)), *(RunTag(f"q{n}", text(300)) for n in range(5))],
)
INPUTS = [DatasetInput(Dataset(f"d{n}", "digest", "local", "s" * 200)) for n in range(3)]
FEEDBACK = Feedback(name="g", value=text(9_000), trace_id=TRACE, source=JUDGE)

GROWTH: dict[str, Callable[[Filled], object]] = {
    "log_batch": lambda f: f.store.log_batch(f.runs[LIVE], *BATCH),
    "log_batch to an ended run": lambda f: f.store.log_batch(f.runs[ENDED], *BATCH),
    "log_metric": lambda f: f.store.log_metric(f.runs[LIVE], BATCH[0][0]),
    "log_param": lambda f: f.store.log_param(f.runs[LIVE], BATCH[1][0]),
    "set_tag": lambda f: f.store.set_tag(f.runs[ENDED], BATCH[2][0]),
    "log_inputs": lambda f: f.store.log_inputs(
        f.runs[LIVE], INPUTS, [LoggedModelInput(f.model.model_id)]
    ),
    "a model of a run": lambda f: f.store.create_logged_model(
        "0", "m", f.runs[LIVE], MODEL_TAGS, MODEL_PARAMS
    ),
    "tags of a model": lambda f: f.store.set_logged_model_tags(f.model.model_id, MODEL_TAGS),
    "params of a model": lambda f: f.store.log_logged_model_params(f.model.model_id, MODEL_PARAMS),
    "a trace that goes on": lambda f: f.store.start_trace(trace_info(TRACE, tags=LONG_TAGS)),
    "a trace that overflows": lambda f: f.store.start_trace(trace_info(TRACE, tags=MANY_TAGS)),
    "a tag of a trace": lambda f: f.store.set_trace_tag(TRACE, "long", text(5_000)),
    "an assessment": lambda f: f.store.create_assessment(FEEDBACK),
    "links": lambda f: f.store.link_traces_to_run([TRACE, SPANNED], f.runs[LIVE]),
    "more spans": lambda f: f.store.log_spans("0", spans(SPANNED, 3, 1_000, first=10)),
    "long spans": lambda f: f.store.log_spans("0", spans(SPANNED, 4, 200_000, first=20)),
}


@pytest.mark.parametrize("grow", GROWTH.values(), ids=GROWTH.keys())
def test_nothing_is_half_written(tmp_path, grow):
    """However much room there is, a call is refused and changes nothing, or succeeds."""
    filled = Filled(tmp_path)
    for room in (*ROOMS, *MORE_ROOMS):
        filled.leave(room)
        before = filled.contents()
        refusal = refusal_of(grow, filled)
        if refusal is None:
            assert room > 0
            return
        assert refusal.error_code == "RESOURCE_LIMIT_EXCEEDED"
        assert refusal.get_http_status_code() == 413
        assert filled.contents() == before
    pytest.fail("there was never enough room")


def refusal_of(call: Callable[[Filled], object], filled: Filled) -> MlflowException | None:
    try:
        call(filled)
    except MlflowException as error:
        return error
    return None


BEGINNINGS: dict[str, Callable[[Filled], object]] = {
    "a run": lambda f: f.store.create_run("0", "u", 9, [*BATCH[2]], "new"),
    "a model": lambda f: f.store.create_logged_model("0", "n", None, MODEL_TAGS, MODEL_PARAMS),
    "a trace": lambda f: f.store.start_trace(trace_info(NEW, tags=LONG_TAGS)),
    "a trace with an overflow": lambda f: f.store.start_trace(trace_info(NEW, tags=MANY_TAGS)),
    "spans": lambda f: f.store.log_spans("0", spans(NEW, 3, 1_000)),
    "long spans": lambda f: f.store.log_spans("0", spans(NEW, 4, 200_000)),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS.keys())
@pytest.mark.parametrize("room", [0, 1600, 5000, 8000, 160_000])
def test_what_begins_goes_to_the_next_volume(tmp_path, begin, room):
    """It leaves nothing behind in the full one, even if META cannot grow any more."""
    filled = Filled(tmp_path)
    meta = filled.store.experiment_lookup.get("0")
    filled.store.experiment_lookup.volumes._write(meta, {})  # as since it was 30 % full
    before = filled.contents()
    filled.leave(room)
    begin(filled)
    first = states_in(filled.store.experiment_lookup.get("0"))[0]
    assert room or first.closed is not None
    if first.closed is not None:
        after = filled.contents()
        assert {k: v for k, v in after.items() if k.pk == "EXP#0"} == {
            k: v for k, v in before.items() if k.pk == "EXP#0"
        }


def test_a_volume_is_not_closed_since_another_is_full(tmp_path):
    """A trace or a model that is added to what is full says so, and opens nothing."""
    filled = Filled(tmp_path)
    volumes = filled.store.experiment_lookup.volumes
    volumes.spread("0", 2)
    volumes.close("0", 0)
    filled.leave(0)
    for grow in ("a trace that goes on", "a model of a run"):
        for _ in range(3):
            with pytest.raises(MlflowException, match="full"):
                GROWTH[grow](filled)
    assert [state.closed is None for state in volumes._states("0")] == [False, True]


def test_runs_models_and_experiments_can_be_ended_and_deleted(tmp_path):
    """Not a byte is left, so that no item may grow."""
    filled = Filled(tmp_path)
    store, live, ended = filled.store, filled.runs[LIVE], filled.runs[ENDED]
    filled.leave(0)
    store.start_trace(trace_info(TRACE))
    filled.leave(0)
    store.update_run_info(live, RunStatus.FINISHED, 10**12, None)
    assert store.get_run(live).info.status == "FINISHED"
    filled.leave(0)
    store.delete_logged_model(filled.model.model_id)
    filled.leave(0)
    store.delete_run(ended)
    filled.leave(0)
    store.delete_traces("0", trace_ids=[TRACE])
    assert store.search_logged_models(["0"]) == []
    assert len(store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 10)) == 2
    store.restore_run(ended)  # what was deleted has made room
    assert len(store.search_runs(["0"], "attributes.run_name = 'run 2'", 1, 10)) == 1


def test_an_experiment_can_be_deleted_and_restored(tmp_path):
    filled = Filled(tmp_path)
    store = filled.store
    store.experiment_lookup.volumes.spread("0", 2)
    filled.leave(0)
    store.delete_experiment("0")
    assert len(store.runs.get_deleted_runs()) == 3
    filled.leave(100_000)
    store.restore_experiment("0")
    for run_id, name in zip(filled.runs, ("run 1", "run 2", "run 3"), strict=True):
        found = store.search_runs(["0"], f"attributes.run_name = '{name}'", 1, 10)
        assert [run.info.run_id for run in found] == [run_id]


def test_an_experiment_whose_runs_fill_it_announces_a_volume(tmp_path):
    """Nothing new begins meanwhile, so that META grows while it can."""
    store = open_tracking_store(
        tmp_path, FakeTime(), options="synchronous=NORMAL&collection_limit=200000"
    )
    run_id = store.create_run("0", "u", 1, [], "n").info.run_id
    logged = 0
    with suppress(MlflowException):
        for logged in range(100):
            store.log_param(run_id, Param(f"p{logged}", text(5_000)))
    assert 10 < logged < 99
    assert len(states_in(store.table.get(experiment_keys.experiment_key("0")) or {})) == 2
    other = str(store.create_run("0", "u", 2, [], "n").info.run_id)
    assert store.get_run(other).info.run_id == other
