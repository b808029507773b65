"""Reading profiles, and running scripts in new Python processes."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Optional

Node = dict[str, Any]


def load(path: str | os.PathLike[str]) -> Node:
    """The root of a .hatchet file."""
    profile = json.loads(Path(path).read_text(encoding="utf-8"))
    assert isinstance(profile, list) and len(profile) == 2
    assert profile[0]["frame"] == {"name": "ROOT", "type": "function"}
    return profile[0]


def names(node: Node) -> set[str]:
    """The names of a node's children."""
    found = [child["frame"]["name"] for child in node["children"]]
    assert len(found) == len(set(found)), f"a name twice below one node: {found}"
    return set(found)


def at(node: Node, *path: str) -> Node:
    """The node below `node` at `path`."""
    for name in path:
        matches = [child for child in node["children"] if child["frame"]["name"] == name]
        assert len(matches) == 1, f"{name!r} of {path} is not among {names(node)}"
        node = matches[0]
    return node


def metrics(node: Node, *path: str) -> dict[str, Any]:
    return at(node, *path)["metrics"]


def walk(node: Node, above: tuple[str, ...] = ()):
    """Every node with its path, root first, as (path, node)."""
    for child in node["children"]:
        path = (*above, child["frame"]["name"])
        yield path, child
        yield from walk(child, path)


def run_command(
    command: list[Any], cwd: str | os.PathLike[str] | None = None,
    env: dict[str, str] | None = None, stdin: str | None = None, status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a command, with the text of both streams; `status` None takes any exit status."""
    done = subprocess.run(
        command, cwd=cwd, env=env, input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True, text=True, timeout=300,
    )
    if status is not None:
        assert done.returncode == status, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done


def script(
    code: str, *arguments: str, env: Optional[dict[str, Optional[str]]] = None,
    status: Optional[int] = 0, name: str = "script.py",
) -> subprocess.CompletedProcess[str]:
    """Run `code` as a script in the current directory; `status` None takes any exit status."""
    Path(name).write_text(textwrap.dedent(code), encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k not in ("PROTON_QUIET",)}
    for variable, value in (env or {}).items():
        if value is None:
            environment.pop(variable, None)
        else:
            environment[variable] = value
    return run_command([sys.executable, name, *arguments], env=environment, status=status)
