"""How people write which version they mean: ``my-app``, ``my-app/3``, ``my-app@prod``."""

from __future__ import annotations

from dataclasses import dataclass

from versioned.errors import InvalidInput, InvalidReference
from versioned.keys import decode_version_sk, encode_version_sk
from versioned.names import LATEST, check_name

FORMS = "my-app (its LATEST), my-app/3 (version 3) or my-app@prod (what the alias prod points at)"


@dataclass(frozen=True)
class Reference:
    """An artifact, and a version of it: by number, or by alias."""

    name: str
    version: str = LATEST
    alias: str | None = None

    def __str__(self) -> str:
        if self.alias is not None:
            return f"{self.name}@{self.alias}"
        return self.name if self.version == LATEST else f"{self.name}/{self.version}"


def parse_reference(text: str) -> Reference:
    """What a text means. Raises ``InvalidReference``."""
    name, at, alias = text.partition("@")
    name, slash, version = name.partition("/")
    try:
        check_name(name)
        if at and not slash:
            return Reference(name, alias=check_name(alias, "an alias"))
        if not at:
            return Reference(
                name, decode_version_sk(encode_version_sk(version)) if slash else LATEST
            )
    except InvalidInput as error:
        raise InvalidReference(f"{text!r} names no version ({error}): write {FORMS}") from error
    raise InvalidReference(f"{text!r} names a version and an alias: write {FORMS}")
