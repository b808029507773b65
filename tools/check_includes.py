#!/usr/bin/env python3
"""Check that every #include respects the components.

The tables below are the whole policy. Usage: check_includes.py [ROOT]
"""

import re
import sys
from pathlib import Path

# Which component may include which. Each may include itself and <libproton/...>. An entry that ends
# in .h allows one header of another component.
MAY_INCLUDE = {
    "src/base": [],
    "src/format": ["base"],
    "src/model": ["base", "format", "symbol"],
    "src/symbol": ["base"],
    "src/intra": ["base"],
    "src/export": ["base", "format", "model", "symbol"],
    "src/viewer": ["base", "format", "model", "symbol", "export"],
    "src/record": ["base", "format", "model", "export/export.h"],
    "src/driver": ["base", "record"],
    "src/backend": ["base", "format", "model", "symbol", "intra", "record", "driver"],
    "src/cli": [
        "base",
        "format",
        "model",
        "symbol",
        "intra",
        "export",
        "viewer",
        "record",
        "driver/amd_library.h",
        "driver/driver.h",
        "backend/cuda/pm_sampling.h",
    ],
    "python/ext/read": ["base", "format", "model", "symbol", "export", "viewer"],
    "python/ext": ["base", "intra", "symbol"],
    "include/libproton": [],
    "examples": [],
    # Tests and benchmarks look inside every component.
    "tests": ["*"],
    "bench": ["*"],
}

# Layers of a component, lowest first: folders, and files at its top without suffix. Each may
# include itself and those before it.
LAYERS = {
    "src/record": [
        "backend",
        "backend_use",
        "names",
        "store",
        "sets",
        "thread",
        "nvtx",
        "session",
        "control",
        "record",
    ],
    "src/backend": ["gpu", "host", "intra", "cuda", "amd"],
    # Files with headers, and those that include them.
    "python/ext": [
        "ext",
        "python_frames",
        "generated",
        "torch",
        "tasks",
        "context",
        "module",
    ],
}

# Folders of which other files may include one header only.
FACADES = {"python/ext/torch": "torch.h"}

# System headers that belong to one place: (pattern of the header, where it may stand, why).
RESERVED = [
    (r"(cuda|cupti|nvperf|nvtx|nvml)", "src/backend/cuda", "a vendor's header elsewhere"),
    (r"(hip/|hsa/|roctracer|rocprofiler)", "src/backend/amd", "a vendor's header elsewhere"),
    (r"(Python\.h|structmember\.h|frameobject\.h)", "python/ext", "Python outside its extension"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def component_of(path):
    """The key of MAY_INCLUDE that `path` belongs to, or None."""
    for component in MAY_INCLUDE:
        if path.is_relative_to(component):
            return component
    return None


def layer_problem(component, path, target):
    """The error in an include from one layer of a component into another, or None."""
    layers = LAYERS.get(component)
    if layers is None or not target.is_relative_to(component):
        return None
    own, other = (Path(p.relative_to(component).parts[0]).stem for p in (path, target))
    facade = FACADES.get(target.parent.as_posix(), target.name)
    if own != other and target.name != facade:
        return f"only {target.parent}/ may include it; there is {other}/{facade}"
    if component == "python/ext" and other == "ext":
        return None  # ext.h is for all files, which need no place then
    for layer in (own, other):
        if layer not in layers:
            return f"{component}/{layer} has no place in the order of tools/check_includes.py"
    if layers.index(other) <= layers.index(own):
        return None
    return f"{component}/{own} may include {', '.join(layers[: layers.index(own)]) or 'no layer'}"


def problem_with(root, path, component, quote, header):
    """The error in one include, or None."""
    own = path.parent.as_posix()
    for pattern, place, why in RESERVED:
        is_home = path.is_relative_to(place) or component in ("tests", "bench")
        if re.match(pattern, header) and not is_home:
            return f"{why}: only {place}/ may"
    if header.startswith("libproton/"):
        if quote == '"':
            return f"public headers are included as <{header}>"
        return None if (root / "include" / header).exists() else "there is no such public header"
    if quote == "<":
        return None
    if ".." in header.split("/"):
        return "includes are rooted at src/, without .."
    allowed = MAY_INCLUDE[component]
    if (root / "src" / header).exists():
        target = header.split("/")[0]
        problem = layer_problem(component, path, Path("src", header))
        if problem:
            return problem
        if component == f"src/{target}" or "*" in allowed or target in allowed or header in allowed:
            return None
        names = ", ".join(allowed) if allowed else "nothing but itself and <libproton/...>"
        return f"{component}/ may include {names}"
    if component.startswith("src/") or component == "include/libproton":
        return "no such file below src/ (includes are rooted: \"component/file.h\")"
    if component == "python/ext" and (root / component / header).exists():
        return layer_problem(component, path, Path(component, header))
    if (root / own / header).exists() or (root / component / header).exists():
        return None  # tests and examples include their own files by short names
    if component == "bench" and (root / "tests" / header).exists():
        return None  # the fake libraries
    return "no such file"


def check(root):
    """All problems, as lines to print."""
    problems = []
    for top in ("src", "include", "python", "tests", "examples", "bench"):
        for path in sorted((root / top).rglob("*.[ch]")):
            relative = path.relative_to(root)
            component = component_of(relative)
            if component is None:
                problems.append(f"{relative}:1: in no component of tools/check_includes.py")
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                match = INCLUDE.match(line)
                what = match and problem_with(root, relative, component, *match.groups())
                if what:
                    problems.append(f'{relative}:{number}: include of {match.group(2)}: {what}')
    return problems


def main():
    """Print the problems; the exit status is their presence."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
