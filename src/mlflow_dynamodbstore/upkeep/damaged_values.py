"""Find packed values that cannot be unpacked; zlib keeps a checksum in each."""

from __future__ import annotations

import zlib

from mlflow_dynamodbstore.keys.base import is_value_part
from mlflow_dynamodbstore.table.contract import Damage
from mlflow_dynamodbstore.table.values import Item, Key

PACKED = b"\x01\x78"
"""How a value begins that large_values.py or points.py has packed."""


def damaged_value(item: Item) -> Damage | None:
    """The first packed value of an item that cannot be unpacked."""
    pk, sk = str(item["PK"]), str(item["SK"])
    if is_value_part(sk):
        return None  # of no use without the other parts; its row has a checksum
    for name, value in item.items():
        if isinstance(value, bytes) and value.startswith(PACKED):
            try:
                zlib.decompress(value[1:])
            except zlib.error:
                return Damage(Key(pk, sk), f"{name} is damaged")
    return None
