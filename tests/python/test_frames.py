"""--frames, --hide and --show: hidden frames change no total, and no kernel vanishes.

Trees made up here are folded by a second implementation, and shown in every view.
"""

import csv
import io
import json
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from cmd_support import executable, run
from rank_support import write_rank
from test_exports import Pprof

SITE = "/v/lib/python3.12/site-packages"
FILES = {
    "user": ["/home/user/train.py", "/home/user/torch/own.py"],
    "triton": [f"{SITE}/triton/runtime/jit.py", "/src/triton/python/triton/knobs.py"],
    "torch": [f"{SITE}/torch/nn/modules/module.py", "/tmp/torchinductor_me/aa/caa.py"],
    "python": ["/usr/lib/python3.12/threading.py", "<frozen runpy>"],
    "packages": [f"{SITE}/vllm/engine.py"],
}
HIDDEN_BY = {
    "user": ("triton", "torch", "python"),
    "all": (),
    "no-torch": ("torch",),
    "no-packages,no-python": ("packages", "triton", "torch", "python"),
}
KERNELS = ["gemm", "add", "softmax"]

Path_ = tuple[str, ...]
Tree = dict[Path_, tuple[int, int]]  # by path: time and count of the kernel that ends it


def make_tree(seed: int) -> tuple[Tree, dict[str, str]]:
    """Kernels by path, and the kind of each frame."""
    chosen = random.Random(seed)
    kinds = {"scope": "user", "train step": "user"}
    for kind, files in FILES.items():
        for file in files:
            kinds |= {f"{file}:{line}@f": kind for line in range(1, 4)}
    frames = list(kinds)
    tree: Tree = {}
    for _ in range(chosen.randrange(1, 60)):
        depth = chosen.randrange(0, 7)
        path = (*(chosen.choice(frames) for _ in range(depth)), chosen.choice(KERNELS))
        tree[path] = (chosen.randrange(1, 10**6), chosen.randrange(1, 9))
    return tree, kinds


def write(path: Path, tree: Tree) -> Path:
    def new_node(name: str) -> dict:
        return {"frame": {"name": name, "type": "function"}, "metrics": {}, "children": []}

    root = new_node("ROOT")
    for steps, (time, count) in tree.items():
        node = root
        for step in steps:
            found = [child for child in node["children"] if child["frame"]["name"] == step]
            if not found:
                found = [new_node(step)]
                node["children"] += found
            node = found[0]
        node["metrics"] = {
            "time (ns)": time, "count": count, "device_id": "0", "device_type": "CUDA"
        }  # fmt: skip
    root["metrics"] = {"time (ns)": 0, "count": 0}
    devices = {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}
    path.write_text(json.dumps([root, devices]))
    return path


def folded(tree: Tree, is_hidden) -> Tree:
    """The same kernels without the hidden frames above them."""
    sums: dict[Path_, list[int]] = {}
    for (*above, kernel), numbers in tree.items():
        shown = (*(frame for frame in above if not is_hidden(frame)), kernel)
        total = sums.setdefault(shown, [0, 0])
        total[0] += numbers[0]
        total[1] += numbers[1]
    return {path: (time, count) for path, (time, count) in sums.items()}


def options(kinds: dict[str, str]):
    """Command lines with what they hide."""
    for value, hidden in HIDDEN_BY.items():
        yield ("--frames", value), lambda frame, hidden=hidden: kinds[frame] in hidden
    yield (), lambda frame: kinds[frame] in HIDDEN_BY["user"]
    yield ("--frames", "all", "--hide", r"\.py:2@"), lambda frame: ".py:2@" in frame
    yield ("--show", "module|train"), lambda frame: not re.search("module|train", frame)
    yield (
        ("--show", "module|train", "--hide", "step"),
        lambda frame: not re.search("module|train", frame) or "step" in frame,
    )


def viewer(*arguments: str, status: int = 0) -> str:
    done = run([executable("proton-viewer"), *arguments], Path.cwd())
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def paths_of(text: str) -> Tree:
    """What --csv prints: the kernels by path."""
    paths: list[Path_] = []
    found: Tree = {}
    for row in csv.DictReader(io.StringIO(text)):
        parent = paths[int(row["parent"])] if row["parent"] else None
        paths.append(() if parent is None else (*parent, row["frame"]))
        if row["frame"] in KERNELS:
            found[paths[-1]] = (int(float(row["time/ns"])), int(float(row["count"])))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_tree_is_that_of_a_second_implementation(tmp_path: Path, seed: int) -> None:
    tree, kinds = make_tree(seed)
    path = write(tmp_path / "a.hatchet", tree)
    for arguments, is_hidden in options(kinds):
        shown = paths_of(viewer("--csv", "-m", "time/ns,count", *arguments, str(path)))
        assert shown == folded(tree, is_hidden), arguments


def rows_of(*arguments: str) -> list[dict]:
    return json.loads(viewer("--json", *arguments))["rows"]


def totals(path: Path, arguments: tuple[str, ...]) -> dict[str, float]:
    """The sum of kernel time in ns in every view and export."""
    many = [*arguments, "-m", "time/ns", str(path)]
    other = str(shutil.copy(path, path.with_name("other.hatchet")))
    found = {"tree": rows_of(*many)[0]["metrics"]["time/ns"]}
    for group in ("kernel", "scope", "module", "file", "layer", "operator", "shape", "device"):
        rows = rows_of("--group", group, *many)
        found[group] = sum(row["metrics"]["time/ns"] or 0 for row in rows)
    rows = rows_of("--bottom-up", *many)
    found["bottom-up"] = rows[0]["metrics"]["time/ns"]
    found["kernels"] = sum(row["metrics"]["time/ns"] for row in rows if row["depth"] == 1)
    found["merged"] = rows_of(*many, other)[0]["metrics"]["time/ns"] / 2
    found["mean"] = next(iter(rows_of("--merge", "mean", *many, other)[0]["metrics"].values()))
    found["before"] = rows_of("--diff", other, *many)[0]["metrics"]["time/ns before"]
    lines = viewer("--export", "folded", *many).splitlines()
    found["folded"] = sum(float(line.rsplit(" ", 1)[1]) for line in lines)
    found["csv"] = sum(
        float(row["time/ns (exc)"] or 0)
        for row in csv.DictReader(io.StringIO(viewer("--export", "csv", *many)))
    )
    speedscope = json.loads(viewer("--export", "speedscope", *many))
    found["speedscope"] = sum(speedscope["profiles"][0]["weights"])
    output = path.with_suffix(".pb.gz")
    viewer("-o", str(output), *many)
    found["pprof"] = sum(sample[1][0] for sample in Pprof(output.read_bytes()).samples)
    page = path.with_suffix(".html")
    viewer("-o", str(page), *many)
    return found


@pytest.mark.parametrize("seed", range(100, 103))
def test_no_total_of_any_view_changes(tmp_path: Path, seed: int) -> None:
    tree, kinds = make_tree(seed)
    path = write(tmp_path / "a.hatchet", tree)
    whole = sum(time for time, _ in tree.values())
    for arguments, _ in options(kinds):
        found = totals(path, arguments)
        assert found == dict.fromkeys(found, pytest.approx(whole, rel=1e-12)), arguments


def test_every_kernel_keeps_its_launches(tmp_path: Path) -> None:
    tree, kinds = make_tree(7)
    path = write(tmp_path / "a.hatchet", tree)
    launches: Counter[str] = Counter()
    for (*_, kernel), (_, count) in tree.items():
        launches[kernel] += count
    for arguments, _ in options(kinds):
        rows = rows_of("--top", "-m", "count", *arguments, str(path))
        assert {row["frame"]: row["metrics"]["count"] for row in rows} == launches, arguments


def test_include_and_exclude_work_together(tmp_path: Path) -> None:
    tree = {
        ("model", "layer", "gemm"): (1, 1),
        ("model", "head", "gemm"): (2, 1),
        ("data", "copy"): (4, 1),
    }
    path = str(write(tmp_path / "a.hatchet", tree))
    frames = [row["frame"] for row in rows_of("-i", "model", "-e", "head", path)]
    assert frames == ["ROOT", "model", "layer", "gemm"]
    rows = rows_of("--top", "-i", "model", "-e", "head", "-m", "time/ns", path)
    assert [(row["frame"], row["metrics"]["time/ns"]) for row in rows] == [("gemm", 1)]


def test_a_message_reports_that_everything_is_hidden(tmp_path: Path) -> None:
    inside = write(tmp_path / "a.hatchet", {(f"{SITE}/torch/nn/f.py:1@f", "gemm"): (1, 1)})
    again = shutil.copy(inside, tmp_path / "again.hatchet")
    shown = run([executable("proton-viewer"), str(inside), str(again)], tmp_path)
    assert shown.stderr.splitlines()[-1:] == [
        "proton-viewer: all frames above the kernels are hidden; they are lines of libraries, "
        "which --frames all shows"
    ]
    assert "f.py:1@f" in viewer("--frames", "all", str(inside))
    # Installed programs that are not these libraries are their users' own.
    own = write(tmp_path / "b.hatchet", {(f"{SITE}/vllm/f.py:1@f", "gemm"): (1, 1)})
    shown = run([executable("proton-viewer"), str(own)], tmp_path)
    assert "vllm/f.py:1@f" in shown.stdout and not shown.stderr


def test_formats_of_a_whole_profile_have_every_frame(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.hatchet", {(f"{SITE}/torch/f.py:1@f", "gemm"): (1, 1)}))
    assert "torch/f.py" in viewer("--export", "hatchet", path)
    printed = viewer("--frames", "user", "--export", "hatchet", path, status=2)
    assert printed == (
        "proton-viewer: --frames cannot be used with hatchet, which always contains the whole "
        "profile\n"
    )


def test_a_job_has_the_same_rows_however_it_is_given(tmp_path: Path) -> None:
    step, other = f"{SITE}/torch/f.py:1@f", f"{SITE}/torch/f.py:2@f"
    for rank in range(3):
        tree = {"/home/user/train.py:9@g": {
            step: {"gemm": 1000 * (rank + 1)}, other: {"gemm": 500, "add": 100 + rank},
        }}  # fmt: skip
        write_rank(tmp_path / "out.ranks", rank, tree, world=3)
    job, merged = tmp_path / "out.ranks", tmp_path / "merged.ranks.proton"
    viewer("-o", str(merged), str(job))
    for arguments in ((), ("--frames", "all"), ("--hide", "train")):
        shown = [paths_of(viewer("--csv", "-m", "time/ns,count", *arguments, str(path)))
                 for path in (job, merged)]  # fmt: skip
        assert shown[0] == shown[1] and sum(time for time, _ in shown[0].values()) == 7803
    assert len(shown[0]) == 2

    def table(path: Path, *arguments: str) -> dict[str, tuple[float, float]]:
        found = json.loads(viewer("--ranks", "--json", *arguments, str(path)))
        return {r["path"]: (r["sum_ns"], r["max_ns"]) for r in found["rows"]}

    whole = table(job, "--frames", "all")
    for path in (job, merged):
        rows = table(path)
        assert rows == {name: row for name, row in whole.items() if not name.endswith("@f")}
        assert len(rows) == 5 and len(whole) == 7

    def of_rank(*arguments: str) -> dict[str, int]:
        found = json.loads(viewer("--rank", "2", "--json", *arguments, str(merged)))
        return {r["path"]: r["time_ns"] for r in found["rows"]}

    whole_rank = of_rank("--frames", "all")
    shown_rank = {name: time for name, time in whole_rank.items() if not name.endswith("@f")}
    assert of_rank() == shown_rank and len(shown_rank) == len(whole_rank) - 2
    hidden = of_rank("--frames", "all", "--hide", "train")
    assert hidden == {name: time for name, time in whole_rank.items() if not name.endswith("@g")}
