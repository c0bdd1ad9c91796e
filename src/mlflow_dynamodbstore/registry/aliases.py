"""Aliases of versions, as MLflow has them, and beyond that weights, history and rollback."""

from __future__ import annotations

from collections.abc import Callable

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.mlflow_compat.validation import (
    REGISTERED_MODEL_ALIAS_LATEST,
    validate_model_alias_name,
    validate_model_alias_name_reserved,
    validate_model_version,
)
from mlflow_dynamodbstore.registry.alias_changes import AliasChange, recorded_changes, redirect
from mlflow_dynamodbstore.registry.alias_routing import chosen_version
from mlflow_dynamodbstore.registry.errors import model_not_found, version_not_found
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, Target
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.registry.registered_models import RegisteredModels
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.attributes import NAME
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Key

MAX_WEIGHT = 99


class Aliases:
    """The aliases of a model."""

    def __init__(
        self, context: Context, reader: ModelReader, registered_models: RegisteredModels
    ) -> None:
        self.context = context
        self.table = context.table
        self.reader = reader
        self.models = reader.models
        self.registered_models = registered_models

    def set_registered_model_alias(self, name: str, alias: str, version: str | int) -> None:
        place = self.reader.place(name)
        validate_model_alias_name(alias)
        validate_model_alias_name_reserved(alias)
        number = validate_model_version(version)
        self._redirected(
            place, alias, lambda _: Target(number), lambda _: version_not_found(name, version)
        )

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        place = self.reader.place(name)
        validate_model_alias_name(alias)
        self._redirected(place, alias, lambda _: None)

    def get_model_version_by_alias(self, name: str, alias: str) -> ModelVersion:
        self.reader.place(name)  # raises for a wrong name before a wrong alias
        validate_model_alias_name(alias)
        if alias.lower() == REGISTERED_MODEL_ALIAS_LATEST:
            return self._newest(name)
        model = self.reader.model(name)
        target = model.target_of(alias)
        version = self.reader.version(model, chosen_version(target, name, alias))
        return version.entity(model.aliases_of(version.number))

    def _newest(self, name: str) -> ModelVersion:
        versions = self.registered_models.get_latest_versions(name)
        if not versions:
            raise not_found(f"Latest version not found for model {name}.")
        return max(versions, key=lambda version: int(version.version))

    def _redirected(
        self,
        place: RegisteredModelPlace,
        alias: str,
        choose: Callable[[Model], Target | None],
        missing: Callable[[str], MlflowException] = model_not_found,
    ) -> Model:
        """Make an alias lead where ``choose`` says; returns the model as it is then."""
        now = get_current_time_millis()

        def decide(model: Model) -> Change | None:
            target = choose(model)
            numbers = (target.version, target.secondary) if target else ()
            known = {n: self.reader.version(model, n).item for n in numbers if n is not None}
            if target == model.aliases.get(alias):
                return None
            change = Change(known=known)
            redirect(model, alias, target, change, now)
            return change

        return self.models.change(place, decide, missing)

    # --- beyond MLflow --------------------------------------------------------------------------

    def get_registered_model_alias(self, name: str, alias: str) -> Target:
        """Where an alias leads: its version, and its second one and the weight if it has one."""
        return self.reader.model(name).target_of(alias)

    def list_registered_model_aliases(self, name: str) -> dict[str, Target]:
        """Where each alias of a model leads, by its name."""
        return self.reader.model(name).aliases

    def find_registered_models_with_alias(self, alias: str) -> dict[str, Target]:
        """Where an alias leads in each model of the workspace that has it, by the models' names.

        The index of aliases shows a change a moment after it was made.
        """
        validate_model_alias_name(alias)
        workspace = self.context.workspace()
        query = Query(index_keys.models_with_alias(alias, workspace), index="GSI3")
        keys = [Key(str(item["PK"]), registry_keys.MODEL_META) for item in self.table.items(query)]
        metas = [meta for meta in self.table.get_many(keys).values() if NAME in meta]
        places = [RegisteredModelPlace(str(meta[NAME]), workspace) for meta in metas]
        models = map(self.models.seen, places, metas)
        found = {m.name: m.aliases[alias] for m in models if m is not None and alias in m.aliases}
        return dict(sorted(found.items()))

    def split_registered_model_alias(
        self, name: str, alias: str, version: str | int, weight: int
    ) -> Target:
        """Make an alias lead to a second version for a share of requests.

        ``weight`` is that share in percent, 0 to 99. Setting the alias to one version, either of
        them, ends the split.
        """
        place = self.reader.place(name)
        validate_model_alias_name(alias)
        number = validate_model_version(version)
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= MAX_WEIGHT:
            raise invalid(
                f"A weight is a whole number of percent from 0 to {MAX_WEIGHT}, not {weight!r}."
            )

        def choose(model: Model) -> Target:
            target = model.target_of(alias)
            if target.version == number:
                raise invalid(
                    f"Alias {alias} already points at version {number}; "
                    "the second version must be another one."
                )
            return Target(target.version, number, weight)

        return self._redirected(place, alias, choose).aliases[alias]

    def list_registered_model_alias_changes(
        self, name: str, alias: str | None = None
    ) -> list[AliasChange]:
        """The recorded changes of an alias, or of all aliases of a model, the newest first."""
        return recorded_changes(self.table, self.reader.model(name), alias)

    def rollback_registered_model_alias(
        self, name: str, alias: str, change_id: str | None = None
    ) -> Target | None:
        """Undo the last change of an alias, or return to what a recorded change had made.

        Returns where the alias leads then; None when that is nowhere. A rollback is recorded as
        a change itself, so it can be undone too.
        """
        place = self.reader.place(name)
        validate_model_alias_name(alias)

        def choose(model: Model) -> Target | None:
            changes = recorded_changes(self.table, model, alias)
            if change_id is None and changes:
                return changes[0].before
            for change in changes:
                if change.change_id == change_id:
                    return change.after
            which = "" if change_id is None else f" {change_id}"
            raise not_found(f"There is no recorded change{which} of alias {alias}.")

        return self._redirected(place, alias, choose).aliases.get(alias)
