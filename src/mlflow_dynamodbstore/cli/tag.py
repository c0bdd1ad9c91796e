"""``tag``: the tags of experiments that are copied to the experiments' own items."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, RESUMES, Group
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.upkeep.tag_index import TagIndex, TagProgress


@click.group(cls=Group)
def tag() -> None:
    """Choose the tags that are copied to the experiments' own items."""


@tag.command("list", loads=MLFLOW)
@pass_table_options
def list_(options: TableOptions, json: bool) -> None:
    """List the patterns of tags that are copied."""
    from mlflow_dynamodbstore.upkeep.tag_index import TagIndex

    _show(TagIndex(options.table()), json=json)


@tag.command(loads=MLFLOW, stopped=RESUMES, creates=True)
@click.argument("pattern")
@pass_table_options
def add(options: TableOptions, pattern: str, json: bool) -> None:
    """Copy tags that match a pattern from now on; `tag backfill` copies existing ones."""
    from mlflow_dynamodbstore.upkeep.tag_index import TagIndex

    index = TagIndex(options.table(may_create=True))
    index.add(pattern)
    _show(index, json=json)


@tag.command(loads=MLFLOW, stopped=RESUMES)
@click.argument("pattern")
@pass_table_options
def remove(options: TableOptions, pattern: str, json: bool) -> None:
    """Stop copying tags that match a pattern; their own items stay."""
    from mlflow_dynamodbstore.upkeep.tag_index import TagIndex

    index = TagIndex(options.table())
    index.remove(pattern)
    _show(index, json=json)


@tag.command(loads=MLFLOW, stopped=RESUMES)
@pass_table_options
def backfill(options: TableOptions, json: bool) -> None:
    """Copy or remove tags on the items of all experiments until they match the patterns."""
    from mlflow_dynamodbstore.upkeep.tag_index import TagIndex

    with output.bar("rewriting experiments", quiet=json) as shown:

        def progress(done: TagProgress) -> None:
            output.note(shown, f"{done.changed:,} changed", done.experiments, done.in_all)

        done = TagIndex(options.table(), progress=progress).backfill()
    if json:
        output.as_json(asdict(done))
    else:
        output.say(f"{done.experiments:,} experiments read, [bold]{done.changed:,}[/] changed.")


def _show(index: TagIndex, *, json: bool) -> None:
    patterns = index.patterns()
    if json:
        output.as_json(patterns)
    elif patterns:
        output.grid(
            "Tags on experiments' own items", ("pattern",), [(escape(p),) for p in patterns]
        )
    else:
        output.say("No tag is copied: listing experiments reads the tags of each one.")
