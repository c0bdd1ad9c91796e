"""Points in time, as rows keep them."""

from __future__ import annotations

from datetime import datetime, timezone

# Text of fixed width, so that it sorts by time; the form that tables of the older package hold.
_FORMAT = "%Y-%m-%dT%H:%M:%S.%f%z"

BEGINNING = datetime(1970, 1, 1, tzinfo=timezone.utc)


def from_seconds(seconds: float) -> datetime:
    """The UTC time at so many seconds since 1970."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def to_text(time: datetime) -> str:
    """A time as a row keeps it."""
    return time.astimezone(timezone.utc).strftime(_FORMAT)


def from_text(text: object) -> datetime:
    """A time that a row kept; the beginning of time if it kept none that can be read."""
    if not isinstance(text, str):
        return BEGINNING
    try:
        if text.endswith("+0000"):  # what we write; strptime takes ten times as long
            return datetime.fromisoformat(text[:-5]).replace(tzinfo=timezone.utc)
        return datetime.strptime(text, _FORMAT).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return BEGINNING
