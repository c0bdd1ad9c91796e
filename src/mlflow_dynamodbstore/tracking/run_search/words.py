"""Full-text entries of several experiments at once, by GSI2.

One query for a word then takes the place of one in each experiment. The index follows the table
with a delay, so it is not asked about an experiment whose runs got entries a moment ago: that one
is asked itself. A run that is being sealed writes the time of its entries (``E#TEXTS``) before it
leaves the list of live runs, so the live runs are read first, then these times, then the index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    ExperimentRuns,
)
from mlflow_dynamodbstore.tracking.run_search.plans import Plans
from mlflow_dynamodbstore.tracking.run_search.rank_paths import ByText

LAG_SECONDS = 60.0
"""How long GSI2 may take to show an entry, and clocks of two hosts may differ, together."""
MOST_ENTRIES = 2_000
"""A word that more runs have is looked up in each experiment, which stops earlier."""


def read_words(searched: Sequence[ExperimentRuns], plans: Plans) -> None:
    """Read the entries of the words that a search begins with, for all its experiments at once."""
    path = plans.narrow[0] if plans.narrow else None
    if (
        sum(len(runs.volumes) for runs in searched) < 2
        or not isinstance(path, ByText)
        or not path.field.in_gsi2
    ):
        return
    table = searched[0].table
    table.map(ExperimentRuns.live, list(searched))
    settled = _settled(table, searched)
    if not settled:
        return
    most = min(MOST_ENTRIES, 100 * len(settled))
    found = table.map(lambda token: _entries(table, path, token, most), path.tokens)
    for token, entries in zip(path.tokens, found, strict=True):
        if entries is not None:
            for runs in settled:
                known = [entry for pk in runs.partitions for entry in entries.get(pk, ())]
                runs.know(rank_keys.fts_entries(path.level, token), known)


def _settled(table: Table, searched: Sequence[ExperimentRuns]) -> list[ExperimentRuns]:
    """The experiments whose entries are all old enough to be in the index."""
    texts = experiment_keys.experiment_texts()
    times = table.get_many(Key(pk, texts) for runs in searched for pk in runs.partitions)
    recent = {key.pk for key, note in times.items() if note["at"] > table.clock() - LAG_SECONDS}
    return [runs for runs in searched if recent.isdisjoint(runs.partitions)]


def _entries(table: Table, path: ByText, token: str, most: int) -> dict[str, list[Item]] | None:
    """The entries with a word by their partitions; None when they are too many."""
    where = index_keys.fts_of_type(path.level, path.field.name).on("gsi2sk")
    query = Query(index_keys.workspace_fts(token), where, index="GSI2", limit=most + 1)
    found = list(islice(table.items(query), most + 1))
    if len(found) > most:
        return None
    by_partition: defaultdict[str, list[Item]] = defaultdict(list)
    for entry in found:
        by_partition[str(entry["PK"])].append(entry)
    return by_partition
