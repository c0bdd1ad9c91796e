"""Which names a new user may have. Users who have another name already keep it."""

from __future__ import annotations

import unicodedata

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.auth.checks import check_text
from mlflow_dynamodbstore.shared.refusals import invalid

_ALIKE = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE"})
"""Scripts with letters that look the same in another of them."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control and format characters, line ends, and what Unicode leaves undefined or to others."""


def check_username(name: str) -> None:
    """Refuse a name that looks like another one, or with which nobody can log in."""
    check_text(name, "Username")
    if name != name.strip():
        raise _refused("it begins or ends with white space")
    for character in name:
        if unicodedata.category(character) in _INVISIBLE:
            raise _refused(f"it contains U+{ord(character):04X}, which cannot be seen")
    if ":" in name:
        raise _refused("it contains a colon, which ends the name when a client logs in")
    plain = unicodedata.normalize("NFKC", name)
    if plain != name:
        raise _refused(f"it can be taken for {plain!r}; use that form")
    scripts = _ALIKE & {unicodedata.name(character, "").split(" ")[0] for character in name}
    if len(scripts) > 1:
        named = " and ".join(sorted(script.capitalize() for script in scripts))
        raise _refused(f"it mixes {named} letters, which can look the same")


def _refused(why: str) -> MlflowException:
    return invalid(f"This username cannot be used: {why}.")
