"""What the packed summary of a run must contain for the run to match, found without unpacking it.

Most runs that a path brings do not match the rest of a filter, and looking for a few bytes is far
cheaper than unpacking a run. What passes is judged by the filter as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlflow_dynamodbstore import large
from mlflow_dynamodbstore.search.filters import METRIC, PARAM, TAG, Comparison
from mlflow_dynamodbstore.search.like import fixed_parts


def needles(comparisons: Iterable[Comparison]) -> tuple[bytes, ...]:
    """Bytes that stand in the summary of every sealed run which satisfies all comparisons."""
    return tuple(dict.fromkeys(found for c in comparisons for found in _of(c)))


def _of(c: Comparison) -> Iterator[bytes]:
    if c.kind not in (METRIC, PARAM, TAG) or c.comparator == "IS NULL":
        return
    if c.kind != METRIC and c.comparator == "=":
        yield large.in_raw(c.name, str(c.value))
        return
    yield large.in_raw(c.name)
    if c.comparator == "LIKE":
        yield from (part.encode(errors="surrogatepass") for part in fixed_parts(str(c.value)))
