"""Where our stores answer a bad value otherwise than MLflow's SQL stores do, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.fuzz.bad_values import BAD
from tests.fuzz.comparing import INVALID, Call

NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"
TEXTS = frozenset(name for name, value in BAD.items() if isinstance(value, str))
"""The bad values that are text."""
SCORER_PERMISSIONS = frozenset(
    f"{verb}_scorer_permission" for verb in ("create", "get", "update", "delete")
)


class Rule(NamedTuple):
    """Differences of one kind."""

    applies: Callable[[Call], bool]
    reason: str


RULES = (
    Rule(
        lambda call: call.ours.code == INVALID and call.value not in TEXTS,
        "SQLite's columns take and compare values of any type. What is not of the declared type is "
        "refused here, so that everything that is stored can be read back.",
    ),
    Rule(
        lambda call: call.ours.code == INVALID and not call.is_text,
        "A text where a number, a list, a dict or an enumeration is declared: as above.",
    ),
    Rule(
        lambda call: call.ours.code == INVALID and "450 KB" in call.value,
        "An item of DynamoDB ends at 400 KB, and a key at 2 KB.",
    ),
    Rule(
        lambda call: call.is_mlflows,
        "MLflow's own method, which our store inherits: it calls methods of ours, and wraps what "
        "they say.",
    ),
    Rule(
        lambda call: call.theirs.code.startswith("NotImplementedError"),
        "MLflow's SQL store does not offer it.",
    ),
    Rule(
        lambda call: call.kind == "auth" and call.value == "empty" and call.ours.code == INVALID,
        "Nothing has an empty name, and no grant can be written for one.",
    ),
    Rule(
        lambda call: call.kind == "auth" and call.value == "True" and call.ours.code == NOT_FOUND,
        "True is not the number of a user, a role or a grant; SQLite compares it as 1.",
    ),
    Rule(
        lambda call: call.method == "create_user" and call.ours.code == INVALID,
        "Names that look like another one, or with which nobody can log in, are refused.",
    ),
    Rule(
        lambda call: call.method in SCORER_PERMISSIONS and call.value == "True",
        "True is the id 1 here, as in a column; MLflow writes it as 'True' into a scorer's name.",
    ),
    Rule(
        lambda call: call.value == "NaN",
        "SQLite takes NaN as NULL, which is no id; here it is the text 'nan', which nobody has.",
    ),
    Rule(
        lambda call: call.kind == "jobs" and "already finalized" in call.ours.message,
        "Before MLflow 3.17 some methods change jobs that have ended; newer releases refuse it.",
    ),
    Rule(
        lambda call: call.ours.code == INVALID and "half a pair" in call.value,
        "Half of a surrogate pair is no Unicode: it cannot be stored or sent.",
    ),
)

MISSING = "MLflow finds nothing to do for what does not exist; ours says that it does not."
NO_NUMBER = "An experiment's id is a number; MLflow's SQL store does not look in this method."
ONE_SIDE = "An earlier call created on one side only what this one names."
TRUE_IS_ONE = "True is the id 1 here, as in a column."
ONES: dict[tuple[str, str], str] = {
    ("_load_dataset_records", "dataset_id"): MISSING,
    ("delete_dataset_records", "dataset_id"): MISSING,
    ("delete_assessment", "trace_id"): MISSING,
    ("search_datasets", "experiment_ids.0"): NO_NUMBER,
    ("log_spans", "location"): NO_NUMBER,
    ("add_dataset_to_experiments", "experiment_ids.0"): TRUE_IS_ONE,
    ("query_trace_metrics", "page_token"): "MLflow leaves out what is no letter of a token.",
    ("start_trace", "trace_info.trace_id"): "A trace without an id could not be found.",
    ("upsert_online_scoring_config", "scorer_name"): ONE_SIDE,
    ("create_assessment", "assessment.metadata"): "Metadata is a dict; SQLite stores any JSON.",
    ("create_assessment", "assessment.overrides"): ONE_SIDE,
    ("delete_experiment", "experiment_id"): ONE_SIDE,
    ("delete_experiment_tag", "experiment_id"): TRUE_IS_ONE,
    ("delete_model_version", "name"): ONE_SIDE,
    ("revoke_user_resource_permission", "resource_pattern"): ONE_SIDE,
    ("delete_model_version", "version"): "True is version 1 here, as in a column.",
}
"""Single methods and arguments, with the reason; the code of ours is in the call's message."""


def reason(call: Call) -> str | None:
    """Why a difference is meant to be; None if it is not."""
    if call.is_fault:
        return None
    for rule in RULES:
        if rule.applies(call):
            return rule.reason
    return ONES.get((call.method, call.slot))
