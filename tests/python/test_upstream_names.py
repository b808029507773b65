"""Every public name of `triton.profiler` is in this package, or on the list of those left out."""

import fnmatch
import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from upstream_names import package_names

ROOT = Path(__file__).resolve().parents[2]
OLDEST = json.loads((ROOT / "tests/data/upstream/names-3.6.json").read_text())

# Left out on purpose: {module: {name or Class.member: reason}}; docs/design/upstream-names.md.
COMPILES_METRICS = "compiles kernels that write metrics; here the driver copies them"
INSIDE_COMMAND = "a step of the command, which is a program here"
LEFT_OUT: dict[str, dict[str, str]] = {
    "": {"configure_runtime": "chooses libraries of ROCm, which is done on import here"},
    "hooks.instrumentation": {
        "VERSION": "version of a compiler interface that is not used here",
        "CudaAllocator": "a part of upstream's hook; libproton allocates the buffers here",
        "Instrumentation": "registers passes in Triton's compiler, which is not changed here",
        "InstrumentationHook.active_count": "a counter of upstream's hook",
        "InstrumentationHook.enable_host_buffer": "a switch of upstream's tests",
        "InstrumentationHook.host_buffer": "a buffer for upstream's tests",
        "InstrumentationHook.profile_buffer_size": "libproton sizes its buffers",
        "InstrumentationHook.profile_buffer_alignment": "libproton aligns its buffers",
    },
    "hooks.launch": {
        "op_name": "per-launch state of upstream's hook, in C here",
        "enabled": "per-launch state of upstream's hook, in C here",
        "in_hook": "per-launch state of upstream's hook, in C here",
    },
    "language": {"Event.__init__": "made by allocate_event only"},
    "metric": {
        "tensor_metric_kernel": COMPILES_METRICS,
        "scalar_metric_kernel": COMPILES_METRICS,
        "set_metric_kernels": COMPILES_METRICS,
    },
    "proton": {
        "parse_arguments": INSIDE_COMMAND,
        "is_pytest": INSIDE_COMMAND,
        "execute_as_main": INSIDE_COMMAND,
        "do_setup_and_execute": INSIDE_COMMAND,
        "run_profiling": INSIDE_COMMAND,
    },
    "viewer": {"get_raw_metrics": "Triton 3.6 calls its parameter file, later ones database"},
    "scope": {"thread_local_scopes": "the stack of scopes is libproton's"},
}


def _installed() -> Any:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return pytest.param(None, id="installed", marks=pytest.mark.skip("Triton is not installed"))
    return pytest.param(Path(spec.origin).parent.parent, id="installed")


@pytest.fixture(params=["3.6", _installed()])
def theirs(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    if request.param == "3.6":
        return OLDEST
    return package_names(request.param)


def _parameters_fit(wanted: list[str], function: Any) -> bool:
    """Can `function` be called with the parameters that upstream's has?"""
    try:
        ours = inspect.signature(function).parameters
    except ValueError:
        return True  # a function of the extension without a text signature
    if any(one.kind is one.VAR_POSITIONAL for one in ours.values()):
        return True
    positional = [
        name
        for name, one in ours.items()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and name != "self"
    ]
    by_position = [name for name in wanted if not name.startswith("*,")]
    named = {name.removeprefix("*,") for name in wanted}
    optional = all(
        one.default is not one.empty or name in named or name == "self" or name.startswith("_")
        for name, one in ours.items()
        if one.kind not in (one.VAR_KEYWORD,)
    )
    return positional[: len(by_position)] == by_position and named <= set(ours) and optional


def _differences(module: str, wanted: dict[str, Any]) -> list[str]:
    left_out = LEFT_OUT.get(module, {})
    ours = importlib.import_module(".".join(filter(None, ["triton_proton", module])))
    found = []
    for name, value in wanted.items():
        if name in left_out:
            continue
        if not hasattr(ours, name):
            found.append(f"{module}.{name}")
        elif isinstance(value, list) and not _parameters_fit(value, getattr(ours, name)):
            found.append(f"{module}.{name}({', '.join(value)})")
        elif isinstance(value, dict):
            found += _class_differences(f"{module}.{name}", getattr(ours, name), value, left_out)
    return found


def _class_differences(
    where: str, ours: Any, members: dict[str, Any], left_out: dict[str, str]
) -> list[str]:
    found = []
    short = where.rpartition(".")[2]
    for name, value in members.items():
        if f"{short}.{name}" in left_out:
            continue
        member = getattr(ours, name, None)
        # The fields of a dataclass without a default are not attributes of the class.
        if member is None and name not in getattr(ours, "__annotations__", {}):
            if not any(name in getattr(base, "__annotations__", {}) for base in ours.__mro__):
                found.append(f"{where}.{name}")
        elif name == "__init__" and not _parameters_fit(value, ours):
            found.append(f"{where}.__init__({', '.join(value)})")
        elif isinstance(value, list) and name != "__init__" and not _parameters_fit(value, member):
            found.append(f"{where}.{name}({', '.join(value)})")
    return found


def test_omitted_names_exist_upstream():
    """A stale entry of the list would hide a new difference."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("Triton is not installed")
    newest = package_names(Path(spec.origin).parent.parent)
    for module, names in LEFT_OUT.items():
        for name in names:
            first, _, member = name.partition(".")
            found = [one.get(module, {}).get(first, "") for one in (OLDEST, newest)]
            assert any(one != "" and (not member or member in one) for one in found), name


def test_public_names_and_parameters_are_here(theirs):
    differences = []
    for module, wanted in theirs.items():
        differences += _differences(module, wanted)
    assert not differences


def test_variables_of_upstream_are_documented():
    """Each variable of triton.knobs.proton has an effect or a reason why it has none."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("Triton is not installed")
    text = (Path(spec.origin).parent / "knobs.py").read_text()
    group = text.partition("class proton_knobs(")[2].partition("\n\n\n")[0]
    variables = re.findall(r'= env_\w+\(\s*"(\w+)"', group)
    assert "TRITON_PROTON_DISABLE" in variables
    pages = [ROOT / "docs/guide" / name for name in ("environment.md", "differences.md")]
    named = set(re.findall(r"`([A-Z_]+\*?)`", "".join(page.read_text() for page in pages)))
    unknown = [one for one in variables if not any(fnmatch.fnmatch(one, name) for name in named)]
    assert not unknown


def test_omitted_names_are_documented():
    guide = (ROOT / "docs/design/upstream-names.md").read_text()
    for names in LEFT_OUT.values():
        for name in names:
            name = name.removesuffix(".__init__").rpartition(".")[2]
            assert f"`{name}`" in guide, name
