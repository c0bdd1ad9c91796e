"""The screens in the documentation are what the commands print."""

from __future__ import annotations

import pytest

from tests.cli.screens import SCREENS, documented, screens, settled


@pytest.mark.one_volume(reason="the documented screens show one")
def test_the_documented_screens_are_made_by_the_commands():
    shown = documented()
    assert list(shown) == list(SCREENS)
    made = screens()
    for command in SCREENS:
        assert settled(shown[command]) == settled(made[command]), command
