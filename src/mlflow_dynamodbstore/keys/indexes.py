"""Keys of the global and local indexes.

``<entity>_index`` gives all index attributes of an item, to be merged into it. ``lsi<n>_<entity>``
gives one sort key, for an update that moves an item in one index. Ranges are named after what they
list.

A global index is eventually consistent. What must be right as soon as a write returns is read from
the table itself (see :mod:`mlflow_dynamodbstore.keys.access` for names).
"""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    LONE_NAME,
    NAME,
    PARTITION_NAME,
    TOKEN,
    WORD,
    WORKSPACE,
    Range,
    children,
    in_workspace,
    join,
    key_text,
    pieces_of,
    starting,
    starting_text,
)
from mlflow_dynamodbstore.keys.encoding import bounded, certain_prefix, ordered_float, ordered_time

Attributes = dict[str, str]

LIVE_RUNS = children("LIVE")
"""In LSI5: the live runs, after the mark of resealing."""
RESEALED = children("LIVE#")
"""In LSI5: the mark that runs were sealed again; no run's id begins like it."""


# --- GSI1: the experiment of an id --------------------------------------------------------------


def gsi1_run(run_id: str, experiment_id: str) -> Attributes:
    """From a run's id to its experiment."""
    return {"gsi1pk": run_locator(run_id), "gsi1sk": _experiment(experiment_id)}


def gsi1_trace(trace_id: str, experiment_id: str) -> Attributes:
    """From a trace's id to its experiment."""
    return {"gsi1pk": join("TRACE", bounded(trace_id, ID)), "gsi1sk": _experiment(experiment_id)}


def gsi1_logged_model(model_id: str, experiment_id: str) -> Attributes:
    """From a logged model's id to its experiment."""
    return {"gsi1pk": logged_model_locator(model_id), "gsi1sk": _experiment(experiment_id)}


def gsi1_client_request(client_request_id: str, trace_id: str) -> Attributes:
    """From a client's id of a request to the trace of the request."""
    return {
        "gsi1pk": client_request(client_request_id),
        "gsi1sk": join("TRACE", bounded(trace_id, ID)),
    }


def gsi1_dataset(digest: str, run_id: str) -> Attributes:
    """From a dataset's digest to a run that used the dataset."""
    return {"gsi1pk": dataset_digest(digest), "gsi1sk": run_locator(run_id)}


def run_locator(run_id: str) -> str:
    """The partition of GSI1 that names a run's experiment."""
    return join("RUN", bounded(run_id, ID))


def logged_model_locator(model_id: str) -> str:
    """The partition of GSI1 that names a logged model's experiment."""
    return join("LM", bounded(model_id, ID))


def client_request(client_request_id: str) -> str:
    """The partition of GSI1 that lists the traces with a client's id of a request."""
    return join("CLIENT", bounded(client_request_id, PARTITION_NAME))


def dataset_digest(digest: str) -> str:
    """The partition of GSI1 that lists the runs that used a dataset of this digest."""
    return join("DS", bounded(digest, PARTITION_NAME))


# --- GSI2: experiments of a workspace, entities with a word -------------------------------------


def gsi2_experiment(experiment_id: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """An experiment among those of its workspace."""
    gsi2pk = join("WS", bounded(workspace, WORKSPACE))
    return {"gsi2pk": gsi2pk, "gsi2sk": _experiment(experiment_id)}


def gsi2_fts(
    level: str, token: str, entity_type: str, entity_id: str, workspace: str = DEFAULT_WORKSPACE
) -> Attributes:
    """A full-text entry among those of its workspace with the same word."""
    gsi2sk = join(bounded(level, WORD), bounded(entity_type, WORD), bounded(entity_id, TOKEN))
    return {"gsi2pk": in_workspace("FTS", workspace, bounded(token, TOKEN)), "gsi2sk": gsi2sk}


def run_fts_index(sk: str) -> Attributes:
    """A run's full-text entry, given by its sort key, among those of the table with its word."""
    level, token, entity_type, entity_id = pieces_of(sk, "FTS")
    return {"gsi2pk": join("FTS", token), "gsi2sk": join(level, entity_type, entity_id)}


def fts_of_type(level: str, entity_type: str) -> Range:
    """In GSI2: the entries with a word that are of a level and of one type."""
    return children(join(bounded(level, WORD), bounded(entity_type, WORD)))


def workspace_fts(token: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of GSI2 that lists the entities with a word."""
    return in_workspace("FTS", workspace, bounded(token, TOKEN))


# --- GSI3: names --------------------------------------------------------------------------------


def gsi3_experiment(
    name: str, experiment_id: str, workspace: str = DEFAULT_WORKSPACE
) -> Attributes:
    """From an experiment's name to its id."""
    gsi3pk = in_workspace("EXPNAME", workspace, bounded(name, PARTITION_NAME))
    return {"gsi3pk": gsi3pk, "gsi3sk": _experiment(experiment_id)}


def gsi3_model(name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """From a registered model's name to its partition."""
    return {
        "gsi3pk": in_workspace("RMNAME", workspace, bounded(name, PARTITION_NAME)),
        "gsi3sk": in_workspace("RM", workspace, bounded(name, NAME)),
    }


def gsi3_alias(alias: str, name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """From an alias to the partition of a registered model that has it."""
    return {
        "gsi3pk": models_with_alias(alias, workspace),
        "gsi3sk": in_workspace("RM", workspace, bounded(name, NAME)),
    }


def models_with_alias(alias: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of GSI3 that lists the registered models that have an alias."""
    return in_workspace("ALIAS", workspace, bounded(alias, KEY))


# --- GSI4: permissions --------------------------------------------------------------------------


def gsi4_experiment_permission(experiment_id: str, username: str) -> Attributes:
    """A user's permission among those for an experiment."""
    return {"gsi4pk": join("EXPPERM", bounded(experiment_id, ID)), "gsi4sk": _user(username)}


def gsi4_model_permission(
    name: str, username: str, workspace: str = DEFAULT_WORKSPACE
) -> Attributes:
    """A user's permission among those for a registered model."""
    gsi4pk = in_workspace("RMPERM", workspace, bounded(name, PARTITION_NAME))
    return {"gsi4pk": gsi4pk, "gsi4sk": _user(username)}


# --- GSI5: listings by name ---------------------------------------------------------------------


def gsi5_experiment(name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """An experiment in the list of its workspace, by name."""
    gsi5pk = join("WS", bounded(workspace, WORKSPACE), "EXP")
    return {"gsi5pk": gsi5pk, "gsi5sk": bounded(name, LONE_NAME)}


def gsi5_model(name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """A registered model in the list of its workspace, by name."""
    return {"gsi5pk": in_workspace("RM_LIST", workspace), "gsi5sk": bounded(name, LONE_NAME)}


def gsi5_reversed_name(name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """The reversed name of an experiment in the list of its workspace."""
    return {"gsi5pk": reversed_names(workspace), "gsi5sk": bounded(name[::-1], LONE_NAME)}


def reversed_names(workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of GSI5 that lists a workspace's experiments by their reversed names."""
    return join("WS", bounded(workspace, WORKSPACE), "EXP_REV")


def names_ending(text: str) -> Range:
    """In GSI5: the reversed names of names that end with a text; for a long text, others too."""
    return starting(certain_prefix(bounded(text[::-1], LONE_NAME), LONE_NAME))


# --- LSI1 to LSI5: runs, logged models and traces of an experiment -------------------------------


def lsi1_run(run_id: str, lifecycle: str, start_time: int | None) -> str:
    """A run by lifecycle stage, then start time."""
    return join(_word(lifecycle), _timed(start_time, run_id))


def lsi1_logged_model(model_id: str, lifecycle: str, creation_time: int) -> str:
    """A logged model by lifecycle stage, then creation time."""
    return join("LM", _word(lifecycle), _timed(creation_time, model_id))


def lsi1_trace(trace_id: str, request_time: int | None) -> str:
    """A trace by request time, in the index that carries whole items."""
    return join("T", _timed(request_time, trace_id))


def lsi2_run(run_id: str, start_time: int | None) -> str:
    """A run by start time."""
    return join("R", _timed(start_time, run_id))


def lsi2_trace(trace_id: str, request_time: int | None) -> str:
    """A trace by request time."""
    return join("T", _timed(request_time, trace_id))


def lsi2_named(experiment_id: str, time_ms: int) -> str:
    """The guard of an experiment's name by the time the experiment got the name."""
    return join("N", _timed(time_ms, experiment_id))


def named_since(time_ms: int) -> Range:
    """In LSI2 of a workspace: the guards of the names that experiments got from a time on."""
    return _in_time("N", time_ms, None)


def named_experiment(lsi2sk: str) -> str:
    """The experiment that a guard in LSI2 names."""
    experiment_id = key_text(pieces_of(lsi2sk, "N")[1])
    assert experiment_id is not None  # ids are short
    return experiment_id


def lsi3_run(run_id: str, status: str, start_time: int | None) -> str:
    """A run by status, then start time."""
    return join(_word(status), _timed(start_time, run_id))


def lsi3_trace(trace_id: str, status: str, request_time: int | None) -> str:
    """A trace by status, then request time. Runs and traces share no status."""
    return join(_word(status), _timed(request_time, trace_id))


def lsi4_run(run_id: str, name: str) -> str:
    """A run by name."""
    return join("R", bounded(name, NAME), bounded(run_id, ID))


def lsi4_trace(trace_id: str, name: str) -> str:
    """A trace by name."""
    return join("T", bounded(name, NAME), bounded(trace_id, ID))


def lsi5_live(run_id: str) -> str:
    """A live run."""
    return join("LIVE", bounded(run_id, ID))


def lsi5_resealed(mark: str) -> str:
    """The mark that a run was sealed again, which changes each time; sorts before live runs."""
    return join("LIVE", "", bounded(mark, WORD))


def lsi5_run(run_id: str, key: str, value: float) -> str:
    """A sealed run by its primary metric, the smallest first and NaN last."""
    return join("M", bounded(key, KEY), ordered_float(value), bounded(run_id, ID))


def lsi5_trace(trace_id: str, session: str, request_time: int | None) -> str:
    """A trace by session, then request time."""
    return join("TS", bounded(session, NAME), _timed(request_time, trace_id))


def lsi5_client_request(trace_id: str, client_request_id: str) -> str:
    """A trace by the client's id of its request."""
    return join("CLIENT", bounded(client_request_id, NAME), bounded(trace_id, ID))


def lsi5_dataset(run_id: str, digest: str) -> str:
    """A run by the digest of a dataset that it used."""
    return join("DS", bounded(digest, NAME), bounded(run_id, ID))


def runs_by_lifecycle(lifecycle: str, since: int | None = None, until: int | None = None) -> Range:
    """In LSI1: runs of a lifecycle stage that started from one time to another, both included."""
    return _in_time(_word(lifecycle), since, until)


def logged_models_by_lifecycle(
    lifecycle: str, since: int | None = None, until: int | None = None
) -> Range:
    """In LSI1: logged models of a stage, created from one time to another, both included."""
    return _in_time(join("LM", _word(lifecycle)), since, until)


def runs_by_time(since: int | None = None, until: int | None = None) -> Range:
    """In LSI2: runs that started from one time to another, both included."""
    return _in_time("R", since, until)


def traces_by_time(since: int | None = None, until: int | None = None) -> Range:
    """In LSI1 or LSI2: traces requested from one time to another, both included."""
    return _in_time("T", since, until)


def by_status(status: str, since: int | None = None, until: int | None = None) -> Range:
    """In LSI3: runs or traces of a status, from one time to another, both included."""
    return _in_time(_word(status), since, until)


def runs_named(name: str) -> Range:
    """In LSI4: runs of exactly this name."""
    return children(join("R", bounded(name, NAME)))


def runs_by_name(starting: str = "") -> Range:
    """In LSI4: runs by name, all or those that begin with a text; for a long text, others too."""
    return starting_text("R", starting, NAME)


def run_name_group(lsi4sk: str) -> str:
    """The part of a key in LSI4 that is in order: of a long name, only the beginning is."""
    return certain_prefix(pieces_of(lsi4sk, "R")[0], NAME)


def traces_named(name: str) -> Range:
    """In LSI4: traces of exactly this name."""
    return children(join("T", bounded(name, NAME)))


def traces_by_name(starting: str = "") -> Range:
    """In LSI4: traces by name, all or those that begin with a text; for a long text, others too."""
    return starting_text("T", starting, NAME)


def traces_from_name(name: str) -> Range:
    """In LSI4: where traces of a name stand; of a long name, where those that begin like it do."""
    whole = bounded(name, NAME)
    return traces_named(name) if certain_prefix(whole, NAME) == whole else traces_by_name(name)


def traces_named_as(lsi4sk: str) -> Range:
    """In LSI4: traces with the name of another one."""
    return children(join("T", pieces_of(lsi4sk, "T")[0]))


class TraceName(NamedTuple):
    """The part of a name in LSI4 that is in order, and whether that is the whole name."""

    group: str
    is_whole: bool


def trace_name_of(lsi4sk: str) -> TraceName:
    """The name of a trace in LSI4."""
    piece = pieces_of(lsi4sk, "T")[0]
    group = certain_prefix(piece, NAME)
    return TraceName(group, group == piece)


def traces_of_session(session: str, since: int | None = None, until: int | None = None) -> Range:
    """In LSI5: traces of a session, requested from one time to another, both included."""
    return _in_time(join("TS", bounded(session, NAME)), since, until)


def traces_of_client_request(client_request_id: str) -> Range:
    """In LSI5: the traces with a client's id of a request."""
    return children(join("CLIENT", bounded(client_request_id, NAME)))


def runs_using_dataset(digest: str) -> Range:
    """In LSI5: the runs that used a dataset of this digest."""
    return children(join("DS", bounded(digest, NAME)))


def runs_by_metric(key: str) -> Range:
    """In LSI5: the sealed runs that have the primary metric."""
    return children(join("M", bounded(key, KEY)))


# --- all index attributes of an item ------------------------------------------------------------


def experiment_index(
    *, experiment_id: str, name: str, workspace: str = DEFAULT_WORKSPACE
) -> Attributes:
    """All index attributes of an experiment."""
    return {
        **gsi2_experiment(experiment_id, workspace),
        **gsi3_experiment(name, experiment_id, workspace),
        **gsi5_experiment(name, workspace),
    }


def model_index(*, name: str, workspace: str = DEFAULT_WORKSPACE) -> Attributes:
    """All index attributes of a registered model."""
    return {**gsi3_model(name, workspace), **gsi5_model(name, workspace)}


def run_index(
    *,
    run_id: str,
    experiment_id: str,
    lifecycle: str,
    start_time: int | None,
    status: str,
    name: str,
    live: bool,
) -> Attributes:
    """All index attributes of a run; sealing decides where it is in LSI5."""
    attributes = {
        **gsi1_run(run_id, experiment_id),
        "lsi1sk": lsi1_run(run_id, lifecycle, start_time),
        "lsi2sk": lsi2_run(run_id, start_time),
        "lsi3sk": lsi3_run(run_id, status, start_time),
        "lsi4sk": lsi4_run(run_id, name),
    }
    if live:
        attributes["lsi5sk"] = lsi5_live(run_id)
    return attributes


def logged_model_index(
    *, model_id: str, experiment_id: str, lifecycle: str, creation_time: int
) -> Attributes:
    """All index attributes of a logged model."""
    return {
        **gsi1_logged_model(model_id, experiment_id),
        "lsi1sk": lsi1_logged_model(model_id, lifecycle, creation_time),
    }


def trace_index(
    *,
    trace_id: str,
    experiment_id: str,
    request_time: int | None,
    status: str,
    name: str | None,
    session: str | None = None,
) -> Attributes:
    """All index attributes of a trace; LSI4 only with a name, LSI5 only with a session."""
    attributes = {
        **gsi1_trace(trace_id, experiment_id),
        "lsi1sk": lsi1_trace(trace_id, request_time),
        "lsi2sk": lsi2_trace(trace_id, request_time),
        "lsi3sk": lsi3_trace(trace_id, status, request_time),
    }
    if name is not None:
        attributes["lsi4sk"] = lsi4_trace(trace_id, name)
    if session is not None:
        attributes["lsi5sk"] = lsi5_trace(trace_id, session, request_time)
    return attributes


def client_request_index(*, trace_id: str, client_request_id: str) -> Attributes:
    """All index attributes of the item that finds a trace by the client's id of its request."""
    return {
        **gsi1_client_request(client_request_id, trace_id),
        "lsi5sk": lsi5_client_request(trace_id, client_request_id),
    }


def dataset_link_index(*, run_id: str, digest: str) -> Attributes:
    """All index attributes of the link from a run to a dataset."""
    return {**gsi1_dataset(digest, run_id), "lsi5sk": lsi5_dataset(run_id, digest)}


def _experiment(experiment_id: str) -> str:
    return join("EXP", bounded(experiment_id, ID))


def _user(username: str) -> str:
    return join("USER", bounded(username, LONE_NAME))


def _word(text: str) -> str:
    return bounded(text.upper(), WORD)


def _timed(milliseconds: int | None, entity_id: str) -> str:
    return join(ordered_time(milliseconds), bounded(entity_id, ID))


def _in_time(word: str, since: int | None, until: int | None) -> Range:
    """A range with a limit holds only what has a time."""
    low, high = children(word)
    if since is not None:
        low = children(join(word, ordered_time(since))).low
    elif until is not None:
        low = children(join(word, ordered_time(None))).high
    if until is not None:
        high = children(join(word, ordered_time(until))).high
    return Range(low, high)
