"""What runs and logged models do without in a full partition, so that they can be ended or deleted.

A full partition still takes writes that make no item larger.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.table.contract import is_full
from mlflow_dynamodbstore.table.errors import TableError

_logger = logging.getLogger(__name__)


def spare_attributes(own_id: str, experiment_id: str, volume: int) -> tuple[str, ...]:
    """The entry in GSI1 of something that is found without it, since its id says where it lies."""
    return ("gsi1pk", "gsi1sk") if (experiment_id, volume) in ids.homes_of(own_id) else ()


@contextmanager
def suppressed_if_full(instead: str | None = None) -> Iterator[None]:
    """Do without what does not fit into a full partition, and say what happens ``instead``."""
    try:
        yield
    except TableError as error:
        if not is_full(error):
            raise
        if instead is not None:
            _logger.warning("%s: %s", instead, error)
