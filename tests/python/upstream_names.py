"""The public names of `triton.profiler` and the parameters of its functions, read from its sources.

Usage: upstream_names.py SITE_PACKAGES   prints them as JSON, as tests/data/upstream/ keeps them.

Nothing is imported: the sources need a GPU driver to load.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of the parameters, keyword-only ones with a leading "*,"; none of the private ones."""
    arguments = node.args
    names = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
    names += [f"*,{one.arg}" for one in arguments.kwonlyargs]
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def _class(node: ast.ClassDef) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not item.name.startswith("_") or item.name in ("__init__", "__call__"):
                members[item.name] = _parameters(item)
        elif isinstance(item, (ast.Assign, ast.AnnAssign)):
            for target in item.targets if isinstance(item, ast.Assign) else [item.target]:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    members[target.id] = None
    return members


def names_of(path: Path) -> dict[str, Any]:
    """Public names of a module: parameters of a function, members of a class, else None."""
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = _parameters(node)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = _class(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = None
        elif isinstance(node, ast.ImportFrom) and path.stem == "__init__":
            found.update({one.asname or one.name: None for one in node.names})
    return {name: value for name, value in found.items() if not name.startswith("_")}


def package_names(site_packages: Path) -> dict[str, dict[str, Any]]:
    """{module below triton.profiler ("" for itself): its public names}."""
    root = site_packages / "triton" / "profiler"
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if not any(part.startswith("_") for part in parts):
            modules[".".join(parts)] = names_of(path)
    return modules


if __name__ == "__main__":
    print(json.dumps(package_names(Path(sys.argv[1])), indent=1, sort_keys=True))
