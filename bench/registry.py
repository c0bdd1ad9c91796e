"""Operations of the model registry, measured as those of tracking are."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from bench.tracking import Bench, Operation

RUN = "0197c9b4d3a97bd2a1b2c3d4e5f60718"
ALIAS = "champion"
_numbers = itertools.count(1)


def model_with(versions: int) -> Callable[[Bench], str]:
    """A model with so many versions, the second of which has an alias."""

    def given(bench: Bench) -> str:
        name = f"model with {versions}"
        if name not in bench.state:
            bench.registry.create_registered_model(name)
            for _ in range(versions):
                add_version(bench, name)
            bench.registry.set_registered_model_alias(name, ALIAS, 2)
            bench.state[name] = True
        return name

    return given


def add_version(bench: Bench, name: str) -> None:
    bench.registry.create_model_version(name, f"s3://bucket/models/{next(_numbers)}", RUN)


def _many_models(bench: Bench) -> None:
    if "models" not in bench.state:
        for n in range(200):
            bench.registry.create_registered_model(f"searched-{n:03}")
        bench.state["models"] = True


def _move_alias(bench: Bench, name: str) -> None:
    turn = bench.state["turn"] = 1 + bench.state.get("turn", 1) % 2
    bench.registry.set_registered_model_alias(name, ALIAS, turn)


OPERATIONS = (
    Operation(
        "create a registered model",
        lambda _: f"new model {next(_numbers)}",
        lambda b, name: b.registry.create_registered_model(name),
    ),
    Operation("create a model version", model_with(2), add_version),
    Operation("set an alias", model_with(3), _move_alias),
    Operation(
        "get a version by alias",
        model_with(4),
        lambda b, name: b.registry.get_model_version_by_alias(name, ALIAS),
    ),
    Operation(
        "search models, name LIKE, of 200",
        _many_models,
        lambda b, _: b.registry.search_registered_models("name LIKE '%arched-%5_'"),
    ),
    Operation(
        "search versions of one model",
        model_with(20),
        lambda b, name: b.registry.search_model_versions(f"name = '{name}'"),
    ),
)
