"""Only ``mlflow_compat`` knows what MLflow does not promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
COMPAT = SOURCE / "mlflow_dynamodbstore" / "mlflow_compat"
DOTTED = re.compile(r"\w+(\.\w+)+")
MLFLOWS_VARIABLE = re.compile(r"_MLFLOW_(?!DYNAMODBSTORE)[A-Z_]+")
"""Environment variables that MLflow's processes pass to each other."""


def is_mlflow(module: str) -> bool:
    return module.partition(".")[0] == "mlflow"


def is_private(module: str, name: str = "") -> bool:
    """Whether a name is MLflow's own business: one with an underscore, or one of its server."""
    parts = [*module.split("."), *name.split(".")]
    return any(part.startswith("_") for part in parts) or parts[:2] == ["mlflow", "server"]


def private_uses(text: str) -> Iterator[str]:
    """What a module uses that is MLflow's own: imports, attributes, names in strings."""
    tree = ast.parse(text)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                imported[alias.asname or whole] = whole
                if is_mlflow(alias.name) and is_private(alias.name):
                    yield f"{node.lineno} {alias.name}"
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if is_mlflow(str(node.module)) and is_private(str(node.module), alias.name):
                    yield f"{node.lineno} {node.module}.{alias.name}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Constant):
            continue
        used = ""
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            used = f"{imported.get(first, '')}.{rest}"
        elif isinstance(node.value, str):
            used = node.value
            if MLFLOWS_VARIABLE.fullmatch(used):
                yield f"{node.lineno} {used}"
        if is_mlflow(used) and DOTTED.fullmatch(used) and is_private(used):
            yield f"{node.lineno} {used}"


def test_no_other_package_uses_a_private_name_of_mlflows():
    others = [path for path in SOURCE.rglob("*.py") if path.parent != COMPAT]
    used = {path.name: list(private_uses(path.read_text("utf-8"))) for path in others}
    assert {name: uses for name, uses in used.items() if uses} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from mlflow.utils.validation import _validate_tag",
        "from mlflow.entities._job import Job",
        "from mlflow.server import handlers as h",
        "from mlflow import server",
        "def f():\n    import mlflow.server.handlers as h",
        "import mlflow\nmlflow.server.handlers.get_app()",
        "import mlflow.utils as u\nu.validation._validate_tag('a')",
        "from mlflow.utils import validation as v\nv._validate_tag('a')",
        "from mlflow.entities.span import Span\nSpan._from_dict({})",
        "import_module('mlflow.server.handlers')",
        "sys.modules['mlflow.store.tracking._secret_cache']",
        "os.environ['_MLFLOW_SERVER_FILE_STORE']",
    ],
)
def test_a_private_name_is_found_however_it_is_used(text):
    assert list(private_uses(text))


def test_public_names_are_no_private_ones():
    text = "import mlflow\nfrom mlflow.entities import Run\nmlflow.log_param('mlflow.user', '_a')"
    assert list(private_uses(text)) == []


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
