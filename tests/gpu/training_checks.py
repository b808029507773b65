"""Runs training_steps.py under `proton`, and checks where its kernels are."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trees import load

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "training_steps.py"
LLAMA = HERE.parents[1] / "bench" / "llama_step.py"
BACKWARD = "<backward>"
SHARE = 0.95

# Operators of the forward pass with the text of their lines.
LINES = {
    "llama": {
        "Embedding": "self.embed(tokens)",
        "NllLoss": "F.cross_entropy(",
        "Silu": "F.silu(",
        "ScaledDotProduct": "F.scaled_dot_product_attention(",
        "Rsqrt": "torch.rsqrt(",
    },
    "transformers": {
        "Embedding": "self.embed_tokens(input_ids)", "Silu": "self.act_fn(", "Rsqrt": "torch.rsqrt("
    },
    "triton": {"Gelu": "F.gelu(", "Mean": ".mean()"},
}
# Their kernels in the forward pass, if any, do not tell the line.
VIEWS = re.compile(r"Slice|Select|View|Transpose|^T$|Expand|Unsqueeze|Permute|Split|Clone|Index")


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def record(model: str, *options: str) -> dict[str, Any]:
    """The profile of the program under `proton`."""
    place = os.environ.get("PROTON_TEST_BIN") or os.path.dirname(sys.executable)
    proton = shutil.which("proton", path=place) or "proton"
    run([proton, "-q", "-n", "test", *options, str(PROGRAM), model])
    return load()


def count_kernels(model: str) -> dict[str, int]:
    """The counts of torch.profiler in another process."""
    run([sys.executable, str(PROGRAM), model, "counts.json"])
    return json.loads(Path("counts.json").read_text())


def kernels(node: dict, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """The path and the count of each kernel."""
    for child in node["children"]:
        path = (*above, child["frame"]["name"])
        if child["metrics"].get("count"):
            yield path, child["metrics"]["count"]
        yield from kernels(child, path)


def total(root: dict) -> int:
    return sum(count for _, count in kernels(root))


def is_of_the_model(name: str) -> bool:
    return name.partition(":")[0] in (str(PROGRAM), str(LLAMA)) or "/models/llama/" in name


def text_of(name: str) -> str:
    """The text of the line that a frame is named for."""
    file, number = name.partition("@")[0].rsplit(":", 1)
    return Path(file).read_text(encoding="utf-8").split("\n")[int(number) - 1]


def has_line(path: tuple[str, ...]) -> bool:
    """A line of the model other than that of the call of backward(), which says nothing."""
    above = path[: path.index(BACKWARD)] if BACKWARD in path else path
    of_model = [name for name in above if is_of_the_model(name)]
    return bool(of_model) and "loss.backward()" not in text_of(of_model[-1])


def kernels_have_lines(root: dict) -> None:
    missing = Counter()
    backward = 0
    for path, count in kernels(root):
        backward += count * (BACKWARD in path)
        if not has_line(path):
            missing[path] += count
    assert sum(missing.values()) <= (1 - SHARE) * total(root), missing
    assert backward > 0.2 * total(root), "few kernels are below <backward>"


def lines_add_up(file: str, root: dict) -> None:
    """The viewer's times of all lines are the time of all kernels."""

    def time(node: dict) -> int:
        return node["metrics"].get("time (ns)", 0) + sum(map(time, node["children"]))

    viewer = shutil.which("proton-viewer", path=os.path.dirname(sys.executable)) or "proton-viewer"
    command = [viewer, "--group", "scope", "-m", "time/ns,count", "--export", "table", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert sum(int(row["count"]) for row in rows) == total(root)
    assert sum(float(row["time/ns"]) for row in rows) == pytest.approx(time(root), rel=1e-6)


def node_name(below: tuple[str, ...]) -> str:
    """Gelu, if a frame is GeluBackward0."""
    for name in below:
        found = re.fullmatch(r"(\w+?)Backward\d*", name)
        if found:
            return found[1]
    return ""


def operators_match(root: dict, model: str) -> None:
    """A backward operator is where its forward operator is: aten::silu for SiluBackward0."""
    forward: dict[tuple[str, ...], set[str]] = {}
    for path, _ in kernels(root):
        if BACKWARD not in path:
            for i in range(len(path)):
                forward.setdefault(path[:i], set()).update(path[i:])
    wrong, right = Counter(), Counter()
    lines: dict[str, set[str]] = {}
    for path, count in kernels(root):
        if BACKWARD not in path:
            continue
        at = path.index(BACKWARD)
        node = node_name(path[at + 1 :])
        if not node or VIEWS.search(node):
            continue
        operator = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node).lower()
        here = any(operator in name.lower() for name in forward.get(path[:at], ()))
        (right if here else wrong)[node, path[:at]] += count
        of_model = [name for name in path[:at] if is_of_the_model(name)]
        lines.setdefault(node, set()).add(text_of(of_model[-1]) if of_model else "")
    assert sum(wrong.values()) <= (1 - SHARE) * (wrong.total() + right.total()), wrong
    for operator, line in LINES[model].items():
        nodes = [node for node in lines if node.startswith(operator)]
        assert nodes, f"no backward kernels of {operator} among {sorted(lines)}"
        for node in nodes:
            assert all(line in text for text in lines[node]), (node, lines[node])


def modules_match(root: dict, model: str) -> None:
    """Equal layers have equally many kernels, in both directions."""
    layer = r"\d+" if model == "triton" else r"(model\.)?layers\.\d+"
    matrix = r".*\.(q|k|v|o|gate|up|down)(_proj)?"
    layers: dict[str, list[int]] = {}
    products: tuple[set[str], set[str]] = (set(), set())
    everywhere = 0
    for path, count in kernels(root):
        is_backward = BACKWARD in path
        everywhere += is_backward * count
        for name in path:
            if re.fullmatch(layer, name):
                layers.setdefault(name, [0, 0])[is_backward] += count
            elif re.fullmatch(matrix, name):
                products[is_backward].add(name)
    assert len(layers) >= 2 and products[0] and products[0] == products[1]
    assert sum(backward for _, backward in layers.values()) >= 0.8 * everywhere
    # The first one's input may need no gradient.
    assert len({tuple(counts) for _, counts in sorted(layers.items())[1:]}) == 1, layers
