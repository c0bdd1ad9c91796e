"""Only ``mlflow_compat`` knows what MLflow does not promise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
COMPAT = SOURCE / "mlflow_dynamodbstore" / "mlflow_compat"


def is_mlflow(module: str) -> bool:
    return module.partition(".")[0] == "mlflow"


def is_private(module: str, name: str = "") -> bool:
    """Whether a name is MLflow's own business: one with an underscore, or one of its server."""
    parts = [*module.split("."), *name.split(".")]
    return any(part.startswith("_") for part in parts) or parts[:2] == ["mlflow", "server"]


def private_uses(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    place = path.relative_to(SOURCE)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if is_mlflow(alias.name)]
            imported |= {name.partition(".")[0] for name in names}
            yield from (f"{place}:{node.lineno} {name}" for name in names if is_private(name))
        if isinstance(node, ast.ImportFrom) and is_mlflow(node.module or ""):
            for alias in node.names:
                imported.add(alias.asname or alias.name)
                if is_private(str(node.module), alias.name):
                    yield f"{place}:{node.lineno} {node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            hidden = node.attr.startswith("_") and not node.attr.startswith("__")
            if hidden and node.value.id in imported:
                yield f"{place}:{node.lineno} {node.value.id}.{node.attr}"


def test_no_other_package_uses_a_private_name_of_mlflows():
    others = [path for path in SOURCE.rglob("*.py") if path.parent != COMPAT]
    assert [use for path in others for use in private_uses(path)] == []


def test_the_package_imports_nothing_of_ours():
    ours = [
        f"{path.name}: {node.module}"
        for path in COMPAT.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("mlflow_dynamodbstore")
        and not (node.module or "").startswith("mlflow_dynamodbstore.mlflow_compat")
    ]
    assert ours == []


def test_each_name_is_looked_up_once():
    """A name has one fallback. ``private`` and ``private_later`` are told it as a constant."""
    looked_up = []
    for path in COMPAT.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        constants = {
            node.targets[0].id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("private", "private_later")
            ):
                module, name = node.args[:2]
                assert isinstance(name, ast.Constant)
                where = module.value if isinstance(module, ast.Constant) else None
                if isinstance(module, ast.Name):
                    where = constants[module.id]
                looked_up.append((where, name.value))
    assert len(looked_up) > 80
    assert len(looked_up) == len(set(looked_up))
