"""put, publish, get, show and resolve."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from versioned.cli.context import Settings, command
from versioned.cli.output import artifact_json, human_size, print_json, print_one, transfer
from versioned.errors import InvalidMetadata

if TYPE_CHECKING:
    from versioned.rows import Artifact

_SOURCE = click.Path(exists=True, path_type=Path, allow_dash=True)
_METADATA = click.option(
    "--metadata", "-m", multiple=True, metavar="KEY=VALUE", help="Can be repeated."
)
_KEY = click.option(
    "--key", help="Routing key: the same key always gets the same version of a canary."
)


@command
@click.argument("name")
@click.argument("source", type=_SOURCE)
@_METADATA
def put(settings: Settings, name: str, source: Path, metadata: tuple[str, ...]) -> None:
    """Store a file or a folder as the LATEST of an artifact.

    Examples:
      versioned put my-app build/my-app.zip
      versioned put my-model ./model --metadata commit=3f2a91c
      tar c src | versioned put sources -
    """
    with (
        settings.repository(create=None) as repo,
        transfer(settings, f"putting {name}", _size_of(source)) as progress,
    ):
        content = sys.stdin.buffer if str(source) == "-" else source
        row = repo.put(name, content, metadata=_parsed(metadata), progress=progress)
    _tell(settings, row, "put")


@command
@click.argument("name")
@click.argument("source", type=_SOURCE, required=False)
@_METADATA
@click.option("--expected-sha256", help="Publish only if the content has this digest.")
def publish(
    settings: Settings,
    name: str,
    source: Path | None,
    metadata: tuple[str, ...],
    expected_sha256: str | None,
) -> None:
    """Publish a file, a folder or LATEST as a version that never changes.

    Content that is already published keeps its version number.

    Examples:
      versioned publish my-app build/my-app.zip
      versioned publish my-app        (what was put last)
    """
    with (
        settings.repository(create=None) as repo,
        transfer(settings, f"publishing {name}", _size_of(source)) as progress,
    ):
        content = sys.stdin.buffer if str(source) == "-" else source
        row = repo.publish(
            name,
            content,
            metadata=_parsed(metadata),
            expected_sha256=expected_sha256,
            progress=progress,
        )
    _tell(settings, row, "published")


@command
@click.argument("reference")
@click.option(
    "--to",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Target file or folder. [default: .]",
)
@_KEY
def get(settings: Settings, reference: str, to: Path | None, key: str | None) -> None:
    """Download a version, and check its digest.

    Examples:
      versioned get my-app/3
      versioned get my-app@prod --to my-app.zip --key user-17
      versioned get sources/1 --to - | tar x
    """
    with settings.repository() as repo:
        row = repo.find(reference, key)
        if str(to) == "-":
            shutil.copyfileobj(repo.open(row), sys.stdout.buffer)
            return
        with transfer(settings, f"getting {reference}", row.size) as progress:
            path = repo.get(row, to=to or Path(), progress=progress)
    if settings.as_json:
        print_json({**artifact_json(row), "path": str(path)})
    else:
        click.echo(f"{row.name}/{row.version} is in {path} ({human_size(row.size)})")


@command
@click.argument("reference")
@_KEY
def show(settings: Settings, reference: str, key: str | None) -> None:
    """Show everything about a version.

    Examples:
      versioned show my-app/3
      versioned show my-app@prod
    """
    with settings.repository() as repo:
        print_one(settings, artifact_json(repo.find(reference, key)))


@command
@click.argument("name")
@click.argument("alias")
@_KEY
def resolve(settings: Settings, name: str, alias: str, key: str | None) -> None:
    """Print the version that an alias gives to a key.

    Example:
      versioned resolve my-app prod --key user-17
    """
    with settings.repository() as repo:
        row = repo.resolve(name, alias, key)
    if settings.as_json:
        print_json(artifact_json(row))
    else:
        click.echo(f"{row.name}/{row.version}")


COMMANDS = (put, publish, get, show, resolve)


def _tell(settings: Settings, row: Artifact, what: str) -> None:
    if settings.as_json:
        print_json(artifact_json(row))
    else:
        click.echo(f"{row.name}/{row.version} {what}: {human_size(row.size)}, sha256 {row.sha256}")


def _parsed(metadata: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in metadata]
    for key, equals, _ in pairs:
        if not equals:
            raise InvalidMetadata(f"{key!r} is not metadata: write it as key=value")
    return {key: value for key, _, value in pairs}


def _size_of(source: Path | None) -> int | None:
    return source.stat().st_size if source is not None and source.is_file() else None
