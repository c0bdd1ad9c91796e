"""What runs read and produce: datasets and logged models.

A dataset is one item of its experiment, named by a hash of its name and digest, and the first
writer's description of it stays. A run that used it has an INPUT item, which keeps the first tags,
and a DLINK item, by which the datasets of a run are listed. The keys of both end with the dataset's
name; those of a second dataset of one name also have its digest. A DCTX item, one for each dataset
and context, answers which datasets an experiment has. It is written after the dataset, so it shows
that the dataset is stored: logging the dataset again neither reads nor writes its description,
which may be megabytes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Dataset, DatasetInput, LoggedModelInput, LoggedModelOutput
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.mlflow_compat.runs import DatasetSummary
from mlflow_dynamodbstore.mlflow_compat.validation import (
    parse_experiment_ids,
    validate_dataset_inputs,
    validate_run_id,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import RunPlace, run_place_of
from mlflow_dynamodbstore.shared.plain_values import WrongTypeError, optional_text, text
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.run_lookup import RunLookup
from mlflow_dynamodbstore.table.contract import Outcome, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking.records import ORDER, RunRecord
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission

CONTENTS = "contents"
"""Attribute of a dataset's item with its source, schema and profile."""
DATASET = "dataset"
"""Attribute of inputs and links: the experiment and the hash of the dataset."""
MAX_SUMMARIES = 1000


class Inputs:
    """Logging what runs read and produce."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        run_lookup: RunLookup,
        run_admission: RunAdmission,
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.run_lookup = run_lookup
        self.run_admission = run_admission

    def log_inputs(
        self,
        run_id: str,
        datasets: list[DatasetInput] | None = None,
        models: list[LoggedModelInput] | None = None,
    ) -> None:
        validate_run_id(run_id)
        if datasets is not None:
            if not isinstance(datasets, list):
                raise WrongTypeError(
                    f"Argument 'datasets' should be a list, got '{type(datasets)}'"
                )
            if any(isinstance(one, DatasetInput) and one.tags is None for one in datasets):
                raise invalid("The tags of a dataset must be a list.")
            validate_dataset_inputs(datasets)
        run = run_place_of(self.run_admission.admit(run_id))
        uses = _uses(run, datasets or [])
        model_ids = dict.fromkeys(model.model_id for model in models or [])
        if not uses and not model_ids:
            return
        new = self._store_datasets(uses)
        models_read = [model_input(run, model_id) for model_id in model_ids]
        now = time.time_ns()
        number(models_read, now + len(uses))
        listed = self._write_uses(uses, now, [Put(item) for item in models_read])
        self.table.write([Put(use.entry) for use in new if use.hash in listed])
        self.run_admission.confirm(run)

    def _write_uses(self, uses: Sequence[DatasetUse], now: int, others: list[Put]) -> set[str]:
        """Write the inputs and links of a run, and in the same request ``others``.

        The keys of the first dataset of a name do not name its digest; those of another one do,
        which is known once the first keys are found taken. Returns the hashes of the datasets that
        the run has in the given context.
        """
        order = {use.hash: n for n, use in enumerate(uses, now)}
        firsts = [use for use, with_digest in told_apart(uses) if not with_digest]
        written = self.table.write(
            [use.input(order[use.hash]) for use in firsts] + [use.link() for use in firsts] + others
        )
        inputs, links = written[: len(firsts)], written[len(firsts) : 2 * len(firsts)]
        late = _not_at(uses, _holders(firsts, inputs))
        late_links = _not_at(uses, _holders(firsts, links))
        again = self.table.write(
            [use.input(order[use.hash], with_digest=True) for use in late]
            + [use.link(with_digest=True) for use in late_links]
        )
        by_name = {use.dataset.name: done for use, done in zip(firsts, inputs, strict=True)}
        outcomes = {use.hash: by_name[use.dataset.name] for use in uses}
        for use, outcome in zip(late, again, strict=False):
            outcomes[use.hash] = outcome
        return {use.hash for use in uses if use.is_in(outcomes[use.hash])}

    def log_outputs(self, run_id: str, models: list[LoggedModelOutput]) -> None:
        run = run_place_of(self.run_admission.admit(run_id))
        outputs = {model.model_id: model_output(run, model) for model in models}
        if outputs:
            number(outputs.values(), time.time_ns())
            self.table.write([Put(item) for item in outputs.values()])
            self.run_admission.confirm(run)

    def _store_datasets(self, uses: Sequence[DatasetUse]) -> list[DatasetUse]:
        """Write the datasets that are not known in their context; returns their uses."""
        known = self.table.get_many(use.entry_key for use in uses)
        new = [use for use in uses if use.entry_key not in known]
        stored = [use.stored() for use in new]
        parts = [part for value in stored for part in value.parts]
        heads = [
            Put({**use.head, **value.attributes}, condition=ABSENT)
            for use, value in zip(new, stored, strict=True)
        ]
        outcomes = self.table.write(parts, then=heads)[len(parts) :]
        unused = [
            delete
            for head, outcome in zip(heads, outcomes, strict=True)
            if outcome.status == "refused"
            for delete in large_values.removal(head.item, CONTENTS)
        ]
        self.table.write(unused)
        return new

    def list_datasets(self, run_id: str) -> list[Dataset]:
        """The datasets that a run uses, by their names: what its links lead to."""
        run = self.run_lookup.known_place(run_id) or run_place_of(self.run_lookup.get(run_id))
        query = Query(run.pk, where=experiment_keys.dataset_links(run_id).on())
        refs = dict.fromkeys(str(link[DATASET]) for link in self.table.items(query))
        return list(_datasets_at(self.table, refs).values())

    def search_used_datasets(self, experiment_ids: Sequence[str | int]) -> list[DatasetSummary]:
        """Name, digest and context of the datasets of some experiments, at most 1,000."""
        numbers = dict.fromkeys(parse_experiment_ids(list(experiment_ids)))
        own_ids = [str(n) for n in numbers if self.experiment_lookup.is_in_workspace(str(n))]
        found = self.table.map(self._summaries, own_ids)
        return [summary for summaries in found for summary in summaries][:MAX_SUMMARIES]

    def _summaries(self, experiment_id: str) -> list[DatasetSummary]:
        query = Query(
            experiment_keys.experiment_pk(experiment_id),
            where=experiment_keys.DATASET_CONTEXTS.on(),
        )
        return [
            DatasetSummary(experiment_id, item["name"], item["digest"], item.get("context"))
            for item in islice(self.table.items(query), MAX_SUMMARIES)
        ]


def _datasets_at(table: Table, refs: Iterable[str]) -> dict[str, Dataset]:
    """The datasets that inputs and links refer to, by their references."""
    wanted = {ref: dataset_key(ref) for ref in refs}
    found = table.get_many(wanted.values())
    return {ref: _dataset(table, found[key]) for ref, key in wanted.items() if key in found}


def datasets_of(table: Table, records: Iterable[RunRecord]) -> dict[str, Dataset]:
    """The datasets that runs refer to, by their references in the contents of a run."""
    return _datasets_at(table, {ref for one in records for ref, *_ in one.contents.datasets})


@dataclass(frozen=True)
class DatasetUse:
    """A dataset that a run read, with the items that say so."""

    run: RunPlace
    dataset: Dataset
    tags: dict[str, str]

    @cached_property
    def hash(self) -> str:
        """The dataset's name within its experiment."""
        return dataset_hash(self.dataset.name, self.dataset.digest)

    @property
    def context(self) -> str | None:
        return self.tags.get(MLFLOW_DATASET_CONTEXT)

    @property
    def head(self) -> Item:
        """The dataset's own item, but for its contents."""
        return {"PK": self.key.pk, "SK": self.key.sk, **self._names}

    @property
    def key(self) -> Key:
        """The key of the dataset, which is in the first volume of its experiment."""
        return dataset_key(self.ref)

    @property
    def entry_key(self) -> Key:
        return Key(self.key.pk, experiment_keys.dataset_context(self.hash, self.context))

    @property
    def entry(self) -> Item:
        """The item by which the dataset is listed in its context."""
        context: Item = {} if self.context is None else {"context": self.context}
        return {"PK": self.entry_key.pk, "SK": self.entry_key.sk, **self._names, **context}

    def stored(self) -> large_values.Stored:
        """The dataset's contents, ready to be written."""
        dataset = self.dataset
        contents: Value = {
            "source_type": dataset.source_type,
            "source": dataset.source,
            "schema": dataset.schema,
            "profile": dataset.profile,
        }
        return large_values.store(self.key, CONTENTS, contents)

    def input(self, order: int, *, with_digest: bool = False) -> Put:
        """The write of the run's input; the first one of a dataset stays."""
        name, digest = self.dataset.name, self.dataset.digest if with_digest else None
        # A map takes no empty name.
        tags: Value = [[*tag] for tag in self.tags.items()] if "" in self.tags else {**self.tags}
        attributes: Item = {DATASET: self.ref, **self._names, "tags": tags, ORDER: order}
        sk = run_keys.run_input(self.run.run_id, name, digest)
        return Put(self.run.child(sk, name, attributes), condition=ABSENT)

    def is_in(self, outcome: Outcome) -> bool:
        """Whether the run has the dataset in this context now, by this write or an earlier one."""
        if outcome.status == "applied":
            return True
        tags = (outcome.image or {}).get("tags")
        return tags is not None and dict(tags).get(MLFLOW_DATASET_CONTEXT) == self.context

    def link(self, *, with_digest: bool = False) -> Put:
        """The write of the link from the run to the dataset."""
        name, digest = self.dataset.name, self.dataset.digest if with_digest else None
        sk = experiment_keys.dataset_link(self.run.run_id, name, digest)
        free = ABSENT | Attr(DATASET).eq(self.ref)
        index = index_keys.dataset_link_index(run_id=self.run.run_id, digest=self.dataset.digest)
        attributes: Item = {DATASET: self.ref, **index}
        return Put(self.run.child(sk, name, attributes), condition=free)

    @property
    def ref(self) -> str:
        """What inputs and links say of the dataset."""
        return f"{self.run.experiment_id}/{self.hash}"

    @property
    def _names(self) -> Item:
        return {"name": self.dataset.name, "digest": self.dataset.digest}


def dataset_hash(name: str, digest: str) -> str:
    """What names a dataset within an experiment."""
    return hashlib.sha256(json.dumps([name, digest]).encode()).hexdigest()[:32]


def told_apart(uses: Iterable[DatasetUse]) -> Iterator[tuple[DatasetUse, bool]]:
    """Each use, and whether its keys name the digest: for all but the first of a name."""
    names: set[str] = set()
    for use in uses:
        yield use, use.dataset.name in names
        names.add(use.dataset.name)


def _holders(firsts: Iterable[DatasetUse], outcomes: Iterable[Outcome]) -> dict[str, Value]:
    """By its name, the dataset whose item lies at the key without a digest after these writes."""
    return {
        use.dataset.name: use.ref if done.status == "applied" else (done.image or {}).get(DATASET)
        for use, done in zip(firsts, outcomes, strict=True)
    }


def _not_at(uses: Iterable[DatasetUse], holders: Mapping[str, Value]) -> list[DatasetUse]:
    """The uses whose items do not lie at the keys without a digest."""
    return [use for use in uses if holders[use.dataset.name] != use.ref]


def _uses(run: RunPlace, inputs: Iterable[DatasetInput]) -> list[DatasetUse]:
    """The inputs, the first of each name and digest."""
    uses: dict[str, DatasetUse] = {}
    for given in inputs:
        tags = {text(tag.key, "a tag"): text(tag.value, "a tag") for tag in given.tags or []}
        use = DatasetUse(run, _plain(given.dataset), tags)
        uses.setdefault(use.hash, use)
    return list(uses.values())


def _plain(dataset: Dataset) -> Dataset:
    """A dataset whose fields are texts."""
    return Dataset(
        name=text(dataset.name, "the name of a dataset"),
        digest=text(dataset.digest, "the digest of a dataset"),
        source_type=text(dataset.source_type, "the type of a dataset's source"),
        source=text(dataset.source, "the source of a dataset"),
        schema=optional_text(dataset.schema, "the schema of a dataset"),
        profile=optional_text(dataset.profile, "the profile of a dataset"),
    )


def number(items: Iterable[Item], first: int) -> None:
    """Number inputs or outputs of a run, so that they are shown in the order they came in."""
    for n, item in enumerate(items, first):
        item[ORDER] = n


def model_input(run: RunPlace, model_id: str) -> Item:
    """The item by which a run has read a logged model."""
    return run.child(run_keys.run_model_input(run.run_id, model_id), model_id, {})


def model_output(run: RunPlace, model: LoggedModelOutput) -> Item:
    """The item by which a run has produced a logged model."""
    attributes: Item = {"model_id": model.model_id, "step": model.step}
    return run.child(run_keys.run_output(run.run_id, model.model_id), model.model_id, attributes)


def dataset_key(named: str) -> Key:
    """The key of the dataset that a run's input refers to."""
    experiment_id, _, name = named.partition("/")
    return Key(experiment_keys.experiment_pk(experiment_id), experiment_keys.dataset(name))


def _dataset(table: Table, item: Item) -> Dataset:
    contents = large_values.load(table, item, CONTENTS)
    assert isinstance(contents, dict)
    return Dataset(name=item["name"], digest=item["digest"], **contents)
