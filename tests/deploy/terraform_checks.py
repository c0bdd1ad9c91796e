"""What ``terraform validate`` checks, as far as it goes without Terraform and its provider.

Names of arguments, blocks and attributes, which of them are required, and types of literals come
from ``terraform_schema.json``, which ``tools/terraform_schema.py`` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import hcl2

SCHEMA = json.loads((Path(__file__).parent / "terraform_schema.json").read_text())
META = frozenset({"count", "for_each", "depends_on", "lifecycle", "provider"})
IS_BLOCK = "__is_block__"
REFERENCE = re.compile(
    r"(?<![\w.\"-])(?:(var|local)\.(\w+)|(data\.)?(aws_\w+)\.(\w+)(\[[^\]]+\])?(?:\.(\w+))?)"
)


@dataclass
class Module:
    """The blocks of a module; resources and data sources by address."""

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[str]) -> Module:
        module = cls()
        for text in files:
            module.add(_parsed(text))
        return module

    def add(self, found: Mapping[str, Any]) -> None:
        for kind in ("resource", "data"):
            prefix = "data." if kind == "data" else ""
            for block in found.get(kind, ()):
                for type_, named in block.items():
                    for name, body in named.items():
                        self.resources[f"{prefix}{_text(type_)}.{_text(name)}"] = body
        for block in found.get("locals", ()):
            self.locals |= _without_mark(block)
        for kind, into in (("variable", self.variables), ("output", self.outputs)):
            for block in found.get(kind, ()):
                into |= {_text(name): body for name, body in block.items()}


@cache
def _parsed(text: str) -> dict[str, Any]:
    found: dict[str, Any] = hcl2.loads(text)
    return found


def problems(module: Module) -> list[str]:
    """Everything that is wrong with a module."""
    return [
        *_undeclared(module),
        *(
            problem
            for address, body in module.resources.items()
            for problem in _wrong_block(address, body, _schema_of(address), META)
        ),
        *_cycles(module),
    ]


# --- arguments and blocks -----------------------------------------------------------------------


def _schema_of(address: str) -> Mapping[str, Any]:
    kind = "data" if address.startswith("data.") else "resource"
    found: Mapping[str, Any] = SCHEMA[kind][address.removeprefix("data.").partition(".")[0]]
    return found


def _wrong_block(
    where: str, body: Mapping[str, Any], schema: Mapping[str, Any], meta: frozenset[str]
) -> Iterator[str]:
    blocks = {name: list(inner) for name, inner in _blocks(body)}
    arguments = {
        name: value
        for name, value in _without_mark(body).items()
        if name not in blocks and name != "dynamic" and name not in meta
    }
    for name, value in arguments.items():
        if name not in schema["arguments"]:
            yield f"{where} has no argument {name}"
        elif not _fits(value, schema["arguments"][name][0]):
            yield f"{where}.{name} is not a {schema['arguments'][name][0]}"
    for name, (_, need) in schema["arguments"].items():
        if need == "required" and name not in arguments:
            yield f"{where} lacks the argument {name}"
    for name, inner in blocks.items():
        if name in meta:
            continue
        if name not in schema["blocks"]:
            yield f"{where} has no block {name}"
            continue
        known = schema["blocks"][name]
        if len(inner) > 1 and not known["many"]:
            yield f"{where} has several blocks {name}"
        for one in inner:
            yield from _wrong_block(f"{where}.{name}", one, known, frozenset())
    for name, known in schema["blocks"].items():
        if known["required"] and name not in blocks:
            yield f"{where} lacks the block {name}"


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The blocks in a body, by name; a dynamic one counts as its content."""
    for name, value in body.items():
        if name == "dynamic":
            for one in value:
                for inner, block in _without_mark(one).items():
                    yield _text(inner), [*_plain_blocks(body.get(_text(inner))), *block["content"]]
        elif _plain_blocks(value):
            yield name, value


def _plain_blocks(value: Any) -> list[Any]:
    is_block = (
        isinstance(value, list)
        and value
        and all(isinstance(one, dict) and IS_BLOCK in one for one in value)
    )
    return value if is_block else []


def _fits(value: Any, type_: str) -> bool:
    """Whether a literal has a type; expressions are not evaluated here."""
    if isinstance(value, str) and value.startswith("${"):
        return True
    python = {"string": str, "number": (int, float), "bool": bool, "list": list, "map": dict}
    if type_ not in python:
        return True  # a type of several
    if type_ == "number" and isinstance(value, bool):
        return False
    if type_ == "string" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return True  # Terraform converts it
    return isinstance(value, python[type_])  # type: ignore[arg-type]


# --- references ---------------------------------------------------------------------------------


def _undeclared(module: Module) -> Iterator[str]:
    used: set[str] = set()
    for where, value in _bodies(module):
        for reference in _references(value):
            used.add(reference.address)
            yield from (f"{where}: {why}" for why in reference.problems(module))
    for name in module.variables:
        if f"var.{name}" not in used:
            yield f"var.{name} is not used"
    for name in module.locals:
        if f"local.{name}" not in used:
            yield f"local.{name} is not used"


def _bodies(module: Module) -> Iterator[tuple[str, Any]]:
    yield from module.resources.items()
    yield from ((f"local.{name}", value) for name, value in module.locals.items())
    yield from ((f"output.{name}", value) for name, value in module.outputs.items())


@dataclass(frozen=True)
class Reference:
    """What an expression refers to, and which attribute of it, if it says so."""

    address: str
    is_indexed: bool = False
    attribute: str | None = None

    def problems(self, module: Module) -> Iterator[str]:
        kind, _, name = self.address.partition(".")
        if kind in ("var", "local"):
            if name not in (module.variables if kind == "var" else module.locals):
                yield f"{self.address} is not declared"
            return
        body = module.resources.get(self.address)
        if body is None:
            yield f"{self.address} is not declared"
            return
        if self.attribute is None:
            return
        if self.attribute not in _schema_of(self.address)["attributes"]:
            yield f"{self.address} has no attribute {self.attribute}"
        if self.is_indexed != bool({"for_each", "count"} & body.keys()):
            yield f"{self.address} {'is not' if self.is_indexed else 'is'} several"


def _references(value: Any) -> Iterator[Reference]:
    for text in _expressions(value):
        for kind, name, data, type_, resource, index, attribute in REFERENCE.findall(text):
            if kind:
                yield Reference(f"{kind}.{name}")
            else:
                yield Reference(f"{data}{type_}.{resource}", bool(index), attribute or None)


def _expressions(value: Any) -> Iterator[str]:
    """The expressions inside a value: whole ones, and those in texts."""
    if isinstance(value, str):
        yield from [value] if value.startswith("${") else re.findall(r"\$\{[^}]*\}", value)
    elif isinstance(value, list):
        for one in value:
            yield from _expressions(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _expressions(one)


def _cycles(module: Module) -> Iterator[str]:
    graph = {
        where: {reference.address for reference in _references(body)}
        for where, body in _bodies(module)
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"a cycle: {' -> '.join(error.args[1])}"


def _text(name: str) -> str:
    return name.removeprefix('"').removesuffix('"')


def _without_mark(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if not name.startswith("__")}
