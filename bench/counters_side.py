"""Known kernels with counters, for bench/counters.py: prints what the profile has per launch.

The last line is JSON: [[work, unit, truth, found, limit, samples], ...].
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

# The tests have the kernels; running this file takes their directory out of the way again.
TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "gpu")

FLUSHES = 10  # each gives a kernel the next set of counters
N = 4096
ROUNDS = 1000


def read_kernels() -> dict[str, Any]:
    """The text KERNELS of tests/gpu/test_counters.py, as a module: Triton reads it."""
    import ast
    import importlib.util

    with open(os.path.join(TESTS, "test_counters.py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    text = next(
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "KERNELS"
    )
    path = os.path.join(tempfile.mkdtemp(prefix="proton-counters-"), "known_kernels.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("known_kernels", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["known_kernels"] = module
    spec.loader.exec_module(module)
    return vars(module)


def measure(known: dict[str, Any], call: Callable[[], None]) -> dict[str, float]:
    """The metrics of the only kernel that `call` launches."""
    proton = known["proton"]
    call()
    with tempfile.TemporaryDirectory(prefix="proton-counters-") as directory:
        name = os.path.join(directory, "profile")
        session = known["start"](name)
        known["rounds"](session, call, FLUSHES)
        proton.finalize(session)
        with open(f"{name}.hatchet", encoding="utf-8") as file:
            root = json.load(file)[0]
    (kernel,) = root["children"]
    return kernel["metrics"]


def main() -> None:
    known = read_kernels()
    torch = known["torch"]
    rows = []

    def add(work: str, unit: str, metric: str, truth: float, limit: float, call: Any) -> None:
        found = measure(known, call)
        launches = found["counter_launches"] - found.get("counter_partial_launches", 0)
        value = found.get(metric, 0) / launches if launches else 0.0
        rows.append([work, unit, truth, value, limit, found.get("counter_samples", 0)])

    for kind, width in {"fp16": 16, "bf16": 16, "fp8": 8, "tf32": 32, "int8": 8}.items():
        name = f"Triton product of {kind}, {N}"
        call = known["multiply"](kind, N)
        add(name, "operations", f"counter_flops{width}", 2 * N**3, 1e-3, call)
    a = torch.randn(N, N, device="cuda", dtype=torch.bfloat16)
    name = f"cuBLAS product of bf16, {N}"
    add(name, "operations", "counter_flops16", 2 * N**3, 1e-3, lambda: torch.mm(a, a))
    x, z = (torch.rand(1024 * 264, device="cuda") for _ in range(2))
    polynomial = known["polynomial"]
    add(
        "Triton kernel of known float operations", "operations", "counter_flops32",
        264 * 1024 * (ROUNDS * 2 + 1), 0.0, lambda: polynomial[(264,)](x, z, ROUNDS, 1024),
    )
    n = 1 << 28
    big = [torch.rand(n, device="cuda") for _ in range(3)]
    addition = known["add"]
    add(
        "Triton addition of 2^28 floats", "bytes of DRAM", "counter_bytes", 3 * 4 * n, 0.02,
        lambda: addition[(n // 4096,)](*big, n, 4096),
    )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
