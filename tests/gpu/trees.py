"""Looking at the profiles that tests on a GPU have written."""

import json
import os


def load(file: str | os.PathLike[str] = "test.hatchet") -> dict:
    """The root of a profile."""
    return load_all(file)[0]


def load_all(file: str | os.PathLike[str] = "test.hatchet") -> tuple[dict, dict]:
    """The root of a profile and its devices."""
    with open(file, encoding="utf-8") as opened:
        root, devices = json.load(opened)
    return root, devices


def at(node: dict, *path: str) -> dict:
    """The node below `node` at `path`."""
    for name in path:
        found = [child for child in node["children"] if child["frame"]["name"] == name]
        assert found, f"{name} is not among {[c['frame']['name'] for c in node['children']]}"
        node = found[0]
    return node


def names(node: dict) -> set[str]:
    """The names of all nodes of a subtree."""
    return {node["frame"]["name"]}.union(*(names(child) for child in node["children"]))


def kernels(node: dict) -> int:
    """Executions in a whole subtree."""
    return node["metrics"].get("count", 0) + sum(kernels(child) for child in node["children"])
