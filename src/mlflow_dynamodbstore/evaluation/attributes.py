"""Attributes that the items of datasets, records, scorers and issues have in common."""

REVISION = "rev"
"""Counts the changes of an item that is replaced as a whole."""
CONTENTS = "contents"
"""A value that may be large."""
