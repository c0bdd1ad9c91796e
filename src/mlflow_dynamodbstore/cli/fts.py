"""``fts``: the texts that are indexed for full-text search."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, RESUMES, Group, yes_option
from mlflow_dynamodbstore.cli.limits import TEXT_LEVELS
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlflow_dynamodbstore.upkeep.backfill import BackfillProgress
    from mlflow_dynamodbstore.upkeep.text_index import TextIndex


@click.group(cls=Group)
def fts() -> None:
    """Choose the texts that are indexed for full-text search."""


@fts.command("list", loads=MLFLOW)
@pass_table_options
def list_(options: TableOptions, json: bool) -> None:
    """List the indexed texts."""
    from mlflow_dynamodbstore.upkeep.text_index import TextIndex

    _show(TextIndex(options.table()), json=json)


@fts.command(loads=MLFLOW, stopped=RESUMES, creates=True)
@click.argument("field")
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(TEXT_LEVELS),
    default=TEXT_LEVELS,
    show_default=True,
    help="Whole words, or any three letters in a row; can be repeated.",
)
@pass_table_options
def add(options: TableOptions, field: str, levels: tuple[str, ...], json: bool) -> None:
    """Index a text from now on; `fts backfill` indexes existing texts.

    FIELD is run.name, run.tags.KEY, experiment.name or registered_model.name.
    """
    from mlflow_dynamodbstore.upkeep.text_index import TextIndex

    index = TextIndex(options.table(may_create=True))
    index.add(field, levels)
    _show(index, json=json)


@fts.command(loads=MLFLOW, stopped=RESUMES)
@click.argument("field")
@yes_option
@pass_table_options
def remove(options: TableOptions, field: str, yes: bool, json: bool) -> None:
    """Stop indexing a text, and delete its index."""
    from mlflow_dynamodbstore.upkeep.text_index import TextIndex

    if field not in TextIndex(options.table()).fields():
        raise ValueError(f"{field!r} is not indexed; `fts list` shows the indexed texts")
    output.confirm(f"Delete the full-text index of {field}?", yes=yes)
    with output.bar(f"removing {field}", quiet=json) as shown:
        index = TextIndex(options.table(), progress=lambda done: _note(shown, done))
        done = index.remove(field)
    _say(done, f"{field} is no longer indexed: {done.entries:,} entries deleted.", json=json)


@fts.command(loads=MLFLOW, stopped=RESUMES)
@click.argument("field")
@pass_table_options
def backfill(options: TableOptions, field: str, json: bool) -> None:
    """Index the texts that existed before `fts add`, and let searches use the index.

    After Ctrl-C, run the same command again to resume.
    """
    from mlflow_dynamodbstore.upkeep.text_index import TextIndex

    with output.bar(f"indexing {field}", quiet=json) as shown:
        index = TextIndex(options.table(), progress=lambda done: _note(shown, done))
        done = index.backfill(field)
    _say(done, f"{field} is complete: {done.entries:,} entries written.", json=json)


def _show(index: TextIndex, *, json: bool) -> None:
    fields = index.fields()
    if json:
        output.as_json(fields)
    elif not fields:
        output.say("No text is indexed. `fts add run.name` indexes the names of runs.")
    else:
        rows = [
            (name, ", ".join(field["levels"]), _state(field["complete"]))
            for name, field in sorted(fields.items())
        ]
        output.grid("Full text", ("field", "levels", "state"), rows)


def _state(complete: bool) -> str:
    return "[green]complete[/]" if complete else "[yellow]waits for `fts backfill`[/]"


def _note(shown: Progress, done: BackfillProgress) -> None:
    if done.waiting:
        output.note(shown, f"starts in {done.waiting:.0f} s, when every process knows the field")
    else:
        text = f"{done.entities:,} texts, {done.entries:,} entries"
        output.note(shown, text, done.places, done.places_in_all)


def _say(done: BackfillProgress, text: str, *, json: bool) -> None:
    if json:
        output.as_json(asdict(done))
    else:
        output.say(text)
