"""Write what Terraform's AWS provider accepts, for those resources that our module uses.

    python tools/terraform_schema.py [VERSION]

``terraform validate`` asks the provider, which is not on any package index. The npm package of its
bindings is: it declares every argument, block and attribute of the provider it was made from. This
program reads those of our resources from it, and writes them to tests/deploy/terraform_schema.json,
with which tests/deploy/test_terraform.py checks the module. It needs npm.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "packaging" / "terraform"
SCHEMA = ROOT / "tests" / "deploy" / "terraform_schema.json"
PACKAGE = "@cdktf/provider-aws"
VERSION = "21.22.1"

INTERFACE = re.compile(r"export interface (\w+)[^{]*\{\n(.*?)\n\}", re.DOTALL)
PROPERTY = re.compile(
    r"/\*\*(.*?)\*/\s+readonly (\w+)(\??): ([^;]*?(?:\{[^}]*\})?[^;{}]*);", re.DOTALL
)
CLASS = re.compile(
    r"export declare class \w+ extends cdktf\.Terraform(?:Resource|DataSource) \{(.*)", re.DOTALL
)
GETTER = re.compile(r"^    get (\w+)\(\)", re.MULTILINE)
NAME = re.compile(r"#(\w+) \w+#\w+\}")
PROVIDER = re.compile(r"/aws/(\d+\.\d+\.\d+)/docs")


def used() -> dict[str, list[str]]:
    """The types of resources and data sources in the module."""
    text = "\n".join(path.read_text() for path in sorted(MODULE.glob("*.tf")))
    return {
        kind: sorted(set(re.findall(rf'^{kind} "aws_(\w+)"', text, re.MULTILINE)))
        for kind in ("resource", "data")
    }


def declared(text: str) -> dict[str, Any]:
    """What the declarations of one type say."""
    interfaces = dict(INTERFACE.findall(text))
    (top,) = (name for name in interfaces if name.endswith("Config") and _is_top(name, text))
    (body,) = CLASS.findall(text)
    attributes = {_snake(name) for name in GETTER.findall(body) if not name.endswith("Input")}
    return {**_block(top, interfaces), "attributes": sorted(attributes)}


def _is_top(name: str, text: str) -> bool:
    return f"export interface {name} extends cdktf.TerraformMetaArguments" in text


def _block(interface: str, interfaces: dict[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    blocks: dict[str, Any] = {}
    for comment, _, optional, kind in PROPERTY.findall(interfaces[interface]):
        name = NAME.findall(comment)[-1]
        plain = kind.replace("| cdktf.IResolvable", "").strip()
        inner = plain.removesuffix("[]")
        if inner in interfaces:
            blocks[name] = {
                "required": not optional,
                "many": plain.endswith("[]"),
                **_block(inner, interfaces),
            }
        else:
            arguments[name] = [_type(plain), "optional" if optional else "required"]
    return {"arguments": arguments, "blocks": blocks}


def _type(plain: str) -> str:
    if plain.startswith("{"):
        return "map"
    if plain.endswith("[]") or plain.startswith("Array"):
        return "list"
    return "bool" if plain.startswith("boolean") else plain


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def _lines(schema: dict[str, Any]) -> str:
    """JSON with a line for each type, so that a change is seen."""
    parts = []
    for name, value in schema.items():
        if isinstance(value, dict):
            types = (
                f"{json.dumps(one)}: {json.dumps(value[one], sort_keys=True)}" for one in value
            )
            parts.append(f'"{name}": {{\n' + ",\n".join(types) + "\n}")
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Read the package, and write the schema."""
    version = sys.argv[1] if len(sys.argv) > 1 else VERSION
    package = f"{PACKAGE} {version}"
    schema: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{version}"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[-1]
        with tarfile.open(Path(folder) / packed) as archive:
            for kind, names in used().items():
                schema[kind] = {}
                for name in names:
                    path = f"{'data-aws-' if kind == 'data' else ''}{name.replace('_', '-')}"
                    file = archive.extractfile(f"package/lib/{path}/index.d.ts")
                    assert file is not None
                    text = file.read().decode()
                    schema["package"], schema["provider"] = package, PROVIDER.findall(text)[0]
                    schema[kind][f"aws_{name}"] = declared(text)
    SCHEMA.write_text(_lines(schema))


if __name__ == "__main__":
    main()
