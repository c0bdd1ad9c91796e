"""Keys look as the schema says, fit their limits, and the schema page names them all."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import value_part
from mlflow_dynamodbstore.keys.encoding import inverted_float
from mlflow_dynamodbstore.table.contract import MAX_PK_BYTES, MAX_SK_BYTES
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.values import Key
from tests.keys.patterns import PATTERNS
from tests.keys.section_patterns import Pattern

STEP, TS, VERSION = "8000000000000005", "80000000000003e8", "0000000002"
TIME = "1970-01-01T00:00:01.000Z"

# Every row of the schema's tables, with plain text for its pieces.
ROWS = [
    (experiment_keys.experiment_pk("7"), "EXP#7"),
    (registry_keys.model_pk("iris"), "RM#iris"),
    (access_keys.workspace_pk("team"), "WORKSPACE#team"),
    (access_keys.user_pk("ada"), "USER#ada"),
    (access_keys.CONFIG_PK, "CONFIG"),
    (experiment_keys.EXPERIMENT_META, "E#META"),
    (experiment_keys.experiment_tag("k"), "E#TAG#k"),
    (experiment_keys.experiment_name_rev(), "E#NAME_REV"),
    (run_keys.run("r"), "R#r"),
    (run_keys.run_metric("r", "k"), "R#r#METRIC#k"),
    (run_keys.run_metric_point("r", "k", 5, 1000), f"R#r#MHIST#k#{STEP}#{TS}"),
    (run_keys.run_metric_point("r", "k", 5, 1000, "x"), f"R#r#MHIST#k#{STEP}#{TS}#x"),
    (run_keys.run_param("r", "k"), "R#r#PARAM#k"),
    (run_keys.run_tag("r", "k"), "R#r#TAG#k"),
    (run_keys.run_input("r", "mnist"), "R#r#INPUT#mnist"),
    (run_keys.run_input("r", "mnist", "9f"), "R#r#INPUT#mnist#9f"),
    (run_keys.run_logged_model("r", "iris"), "R#r#LM#iris"),
    (run_keys.run_logged_model("r", "iris", "m-1"), "R#r#LM#iris#m-1"),
    (trace_keys.trace("t"), "T#t"),
    (trace_keys.trace_tag("t", "k"), "T#t#TAG#k"),
    (trace_keys.trace_spans("t"), "T#t#SPANS"),
    (experiment_keys.dataset("9f"), "D#9f"),
    (experiment_keys.dataset_link("r", "mnist"), "DLINK#r#mnist"),
    (rank_keys.metric_rank("k", 1.5, "r"), f"RANK#m#k#{inverted_float(1.5)}#r"),
    (rank_keys.param_rank("k", "v", "r"), "RANK#p#k#v#r"),
    (rank_keys.fts("l", "tok", "run", "r"), "FTS#l#tok#run#r"),
    (rank_keys.fts_rev("run", "r", "l", "tok"), "FTS_REV#run#r#l#tok"),
    (registry_keys.MODEL_META, "M#META"),
    (registry_keys.model_version(2), f"M#V#{VERSION}"),
    (registry_keys.model_tag("k"), "M#TAG#k"),
    (registry_keys.model_alias("prod"), "M#ALIAS#prod"),
    (access_keys.WORKSPACE_META, "WS#META"),
    (access_keys.USER_META, "U#META"),
    (access_keys.user_experiment_permission("7"), "U#PERM#7"),
    (access_keys.user_model_permission("iris"), "U#RPERM#iris"),
    (access_keys.setting("k"), "CFG#k"),
    (index_keys.gsi1_run("r", "7"), {"gsi1pk": "RUN#r", "gsi1sk": "EXP#7"}),
    (index_keys.gsi1_trace("t", "7"), {"gsi1pk": "TRACE#t", "gsi1sk": "EXP#7"}),
    (index_keys.gsi2_experiment("7", "team"), {"gsi2pk": "WS#team", "gsi2sk": "EXP#7"}),
    (index_keys.gsi2_fts("l", "tok", "run", "r"), {"gsi2pk": "FTS#tok", "gsi2sk": "l#run#r"}),
    (index_keys.gsi3_experiment("nlp", "7"), {"gsi3pk": "EXPNAME#nlp", "gsi3sk": "EXP#7"}),
    (index_keys.gsi3_model("iris"), {"gsi3pk": "RMNAME#iris", "gsi3sk": "RM#iris"}),
    (
        index_keys.gsi4_experiment_permission("7", "ada"),
        {"gsi4pk": "EXPPERM#7", "gsi4sk": "USER#ada"},
    ),
    (
        index_keys.gsi4_model_permission("iris", "ada"),
        {"gsi4pk": "RMPERM#iris", "gsi4sk": "USER#ada"},
    ),
    (index_keys.gsi5_experiment("nlp", "team"), {"gsi5pk": "WS#team#EXP", "gsi5sk": "nlp"}),
    (index_keys.gsi5_model("iris"), {"gsi5pk": "RM_LIST", "gsi5sk": "iris"}),
    (index_keys.lsi1_run("r", "active", 1000), f"ACTIVE#{TIME}#r"),
    (index_keys.lsi1_run("r", "deleted", 1000), f"DELETED#{TIME}#r"),
    (index_keys.lsi2_run("r", 1000), f"R#{TIME}#r"),
    (index_keys.lsi3_run("r", "FINISHED", 1000), f"FINISHED#{TIME}#r"),
    (index_keys.lsi4_run("r", "n"), "R#n#r"),
]


@pytest.mark.parametrize(("made", "expected"), ROWS, ids=[str(row[1]) for row in ROWS])
def test_plain_text_gives_the_form_of_the_schema(made, expected):
    assert made == expected


BYTES = {
    attribute: MAX_PK_BYTES if attribute.lower().endswith("pk") else MAX_SK_BYTES
    for attribute in MLFLOW_TABLE.key_attributes
}
EXTREMES = ["\U0001f600" * 250, "#" * 500, "\U0010ffff" * 500, "x" * 6000, "\U0001f600" * 8000, ""]


def worst(value: object, text: str) -> object:
    """An argument of the same type that takes the most room."""
    return text if isinstance(value, str) else 10**4 - 1 if isinstance(value, int) else value


def called_with(pattern: Pattern, text: str) -> str | Key | dict[str, str]:
    """The pattern's function, with every text it takes (optional ones too) at its worst."""
    arguments = [worst(value, text) for value in pattern.arguments]
    if pattern.function is value_part:
        arguments[0] = pattern.arguments[0]
    optional = list(inspect.signature(pattern.function).parameters)[len(arguments) :]
    return pattern.function(*arguments, **dict.fromkeys(optional, text))


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.attribute} {p.text}")
@pytest.mark.parametrize("text", EXTREMES, ids=lambda text: f"{text[:1]}x{len(text)}")
def test_the_longest_text_fits(pattern, text):
    made = called_with(pattern, text)
    if isinstance(made, str):
        made = {pattern.attribute: made}
    elif isinstance(made, Key):
        made = {"PK": made.pk, "SK": made.sk}
    for attribute, key in made.items():
        assert 0 < len(key.encode()) <= BYTES[attribute]
        if attribute == "SK" and pattern.function is not value_part:
            assert len(value_part(key, text, 9999).encode()) <= MAX_SK_BYTES


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.attribute} {p.text}")
def test_an_example_has_as_many_pieces_as_its_pattern(pattern):
    plain = re.sub(r"\[.*?\]", "", pattern.text)
    if not plain.startswith("<sk>"):
        form = re.escape(plain)
        form = re.sub(r"<\w+>", r"[^#]+", form)
        assert re.fullmatch(form, pattern.example), (form, pattern.example)


def test_every_attribute_of_the_table_has_a_pattern():
    assert {pattern.attribute for pattern in PATTERNS} == set(MLFLOW_TABLE.key_attributes)


def test_every_function_that_makes_a_key_has_a_pattern():
    named = {pattern.function for pattern in PATTERNS}
    makers = {name for name in vars(index_keys) if re.match(r"(gsi|lsi)\d_", name)}
    assert makers
    assert not [name for name in makers if getattr(index_keys, name) not in named]


PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def documented() -> set[tuple[str, str]]:
    """Attribute and pattern of every row of the page's tables that begins with a pattern."""
    found = set()
    for line in PAGE.read_text().splitlines():
        row = re.match(r"\| `(PK|SK|gsi\dpk|gsi\dsk|lsi\dsk)` \| `([^`]+)` \|", line)
        if row:
            found.add((row[1], row[2]))
    return found


def test_the_schema_page_names_every_pattern_and_no_other():
    assert documented() == {(pattern.attribute, pattern.text) for pattern in PATTERNS}


def test_the_schema_page_shows_true_examples():
    text = PAGE.read_text()
    shown = dict(re.findall(r"^\| `\w+` \| `([^`]+)` \|.*\| `([^`]+)` \|$", text, re.MULTILINE))
    examples = {pattern.text: pattern.example for pattern in PATTERNS}
    assert shown
    assert {text: examples[text] for text in shown} == shown
