"""examples/triton_kernels.py under `proton`: the numbers of the demo."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton, run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton_kernels.py"
ROWS, WIDTH, LAYERS, STEPS = 16, 32, 2, 3

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "triton")),
    reason="needs torch and Triton",
)


@pytest.fixture(scope="module", autouse=True)
def interpreter_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Some pairs of Triton and NumPy cannot interpret a loop, with or without a profiler."""
    plain = run(
        [sys.executable, str(EXAMPLE), "--rows", "16", "--width", "32", "--steps", "1"],
        tmp_path_factory.mktemp("plain"), env=environment(TRITON_INTERPRET="1"),
    )
    if plain.returncode != 0 and "InterpreterError" in plain.stderr:
        pytest.skip("Triton's interpreter fails here without a profiler, too")


def run_example(tmp_path: Path, *options: str) -> list:
    sizes = ["--rows", ROWS, "--width", WIDTH, "--layers", LAYERS, "--steps", STEPS]
    result = proton(
        *options, str(EXAMPLE), *map(str, sizes), cwd=tmp_path,
        env=environment(TRITON_INTERPRET="1"),
    )
    assert result.returncode == 0, result.stderr
    assert f"{STEPS} steps of {LAYERS} layers" in result.stdout
    (line,) = own_lines(result.stderr)
    # A layer launches 2 layer norms, 6 products and a softmax; one layer warms up.
    assert f"recorded {9 * (LAYERS * STEPS + 1)} kernel launches" in line
    return json.loads((tmp_path / "proton.hatchet").read_text())


def at(node: dict, *path: str) -> dict:
    for name in path:
        (node,) = [child for child in node["children"] if child["frame"]["name"] == name]
    return node


def test_scopes_and_metadata(tmp_path: Path) -> None:
    root, devices = run_example(tmp_path, "-k", "triton")
    assert list(devices) == ["CPU"]
    model = at(root, "model")
    assert model["metrics"]["width"] == WIDTH
    step = at(model, "step")
    assert step["metrics"]["tokens"] == STEPS * ROWS
    assert step["metrics"]["cpu_time (ns)"] > 0
    for number in range(LAYERS):
        attention = at(step, f"layer_{number}", "attention")
        norm = at(attention, f"layer_norm_{ROWS}x{WIDTH}")["metrics"]
        assert norm["count"] == STEPS and norm["time (ns)"] > 0
        assert norm["device_type"] == "CPU" and norm["device_id"] == "0"
        assert norm["flops32"] == STEPS * 8 * ROWS * WIDTH
        assert norm["bytes"] == STEPS * (2 * ROWS + 2) * WIDTH * 2
        # States are the last level.
        for state in ("query", "key", "value"):
            product = at(attention, "project", state, f"matmul_{ROWS}x{WIDTH}x{WIDTH}")["metrics"]
            assert product["count"] == STEPS
            assert product["flops16"] == STEPS * 2 * ROWS * WIDTH * WIDTH
        assert at(attention, "scores")["metrics"]["score_bytes"] == STEPS * 2 * ROWS**2
        assert at(attention, "scores", f"softmax_{ROWS}x{ROWS}")["metrics"]["count"] == STEPS
    assert at(root, "warm-up", "linear", f"layer_norm_{ROWS}x{WIDTH}")["metrics"]["count"] == 1


def test_python_lines(tmp_path: Path) -> None:
    root, _ = run_example(tmp_path, "-c", "python")
    (top,) = root["children"]
    assert top["frame"]["name"].startswith(f"{EXAMPLE}:")
    assert top["frame"]["name"].endswith("@<module>")
    kernels: dict[str, int] = {}
    frames = []

    def walk(node: dict) -> None:
        frames.append(node["frame"]["name"])
        if "count" in node["metrics"]:
            name = node["frame"]["name"]
            kernels[name] = kernels.get(name, 0) + node["metrics"]["count"]
        for child in node["children"]:
            walk(child)

    walk(top)
    runs = LAYERS * STEPS + 1
    assert kernels == {
        "layer_norm_kernel": 2 * runs, "matmul_kernel": 6 * runs, "softmax_kernel": runs
    }
    assert not [name for name in frames if "triton_proton" in name or "runpy" in name]


def test_time_is_that_of_the_program_own_lines(tmp_path: Path) -> None:
    run_example(tmp_path, "-c", "python")
    command = [executable("proton-viewer"), "--json", "--group", "file", "-m", "time/%"]
    shown = run([*command, "proton.hatchet"], tmp_path)
    shares = {row["frame"]: row["metrics"]["time/%"] for row in json.loads(shown.stdout)["rows"]}
    assert shares[str(EXAMPLE)] >= 95
    assert not any("/triton/" in file or "/torch/" in file for file in shares)
