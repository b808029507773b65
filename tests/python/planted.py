"""Profiles with one planted cause each, and clean ones, for tests of --brief."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rank_support import write_rank
from test_trace_formats import KERNEL, LAUNCH, File

US = 1000
BYTE_PER_NS = 2_619_000 * 2 * 5120 / 8 / 1e6  # see DEVICES
FLOP_PER_NS = 989_000.0
SMS = 132
DEVICES = {
    "CUDA": {
        "0": {
            "arch": "90", "num_sms": SMS, "clock_rate": 1_830_000,
            "memory_clock_rate": 2_619_000, "bus_width": 5120,
        }
    }
}  # fmt: skip
PEAKS = ["--peaks", f"flops16={FLOP_PER_NS * 1e9},bytes={BYTE_PER_NS * 1e9}"]

Node = dict[str, Any]


def node(name: str, metrics: dict[str, Any], children: list[Node] | None = None) -> Node:
    frame = {"name": name, "type": "function"}
    return {"children": children or [], "frame": frame, "metrics": metrics}


def kernel(
    r: random.Random, name: str, mean_us: float, count: int, *, memory: float | None = None,
    arithmetic: float | None = None, grid: int = 0, block: int = 256, registers: int = 40,
    shared: int = 0, spread: float = 0.02, children: list[Node] | None = None,
) -> Node:
    """`memory` and `arithmetic`: shares of the peaks. Without a grid, it fills the GPU."""
    times = [max(1, int(mean_us * US * r.gauss(1, spread))) for _ in range(count)]
    total = sum(times)
    metrics: dict[str, Any] = {"time (ns)": total, "count": count}
    metrics |= {"device_id": "0", "device_type": "CUDA"}
    if memory:
        metrics["bytes"] = int(memory * BYTE_PER_NS * total)
    if arithmetic:
        metrics["flops16"] = float(arithmetic * FLOP_PER_NS * total)
    made = node(name, metrics, children)
    config = {
        "block": [block, 1, 1], "count": count, "dynamic_shared (bytes)": shared,
        "grid": [grid or SMS * 8 * r.randint(12, 90), 1, 1], "registers": registers,
        "static_shared (bytes)": 0, "time (ns)": total,
    }  # fmt: skip
    made["proton"] = {"configs": [] if grid < 0 else [config]}
    if count > 1:
        made["proton"] |= {"min (ns)": min(times), "max (ns)": max(times)}
    return made


def healthy(r: random.Random, count: int = 0) -> list[Node]:
    """Kernels near a peak; a few are worse, and short of time."""
    made = []
    for i in range(count or r.randint(6, 14)):
        share = r.uniform(0.82, 0.95)
        other = r.uniform(0.1, 0.4)
        limits = {"memory": share, "arithmetic": other}
        if r.random() < 0.4:
            limits = {"memory": other, "arithmetic": share}
        made.append(kernel(r, f"fine_{i}", r.uniform(30, 150), r.randint(40, 120), **limits))
    made.append(kernel(r, "slow_but_rare", 40, 3, memory=r.uniform(0.2, 0.5), grid=9))
    limits = {"registers": 255, "shared": r.randint(60, 200) * 1024}
    made.append(kernel(r, "few_warps", 90, 60, arithmetic=r.uniform(0.8, 0.9), **limits))
    made.append(kernel(r, "fair", 70, 80, memory=r.uniform(0.62, 0.78)))
    return made


def samples(r: random.Random, reasons: dict[str, float], count: int) -> list[Node]:
    """Source lines with PC samples by these shares of their reasons."""
    lines = []
    for line, share in ((41, 0.2), (47, 0.7), (53, 0.1)):
        metrics: dict[str, Any] = {}
        for reason, part in reasons.items():
            metrics[f"stalled_{reason}"] = int(count * share * part)
        metrics["num_samples"] = sum(metrics.values())
        lines.append(node(f"mm.py:{line}@mm", metrics))
    return lines


def write(path: Path, kernels: list[Node], losses: dict[str, int] | None = None) -> Path:
    names = {n for k in kernels for c in [k, *k["children"]] for n in c["metrics"]}
    root = node("ROOT", {n: 0 for n in names if not n.startswith("device")}, kernels)
    root["proton"] = {"info": {}, "counters": {}, "losses": losses or {}}
    path.write_text(json.dumps([root, DEVICES]))
    return path


def with_kernel(**options: Any) -> Callable[[random.Random, Path, float], Path]:
    """A slow kernel among fast ones; functions in the options choose a value."""

    def make(r: random.Random, directory: Path, size: float) -> Path:
        chosen = {name: value(r) if callable(value) else value for name, value in options.items()}
        others = healthy(r)
        total_us = sum(k["metrics"]["time (ns)"] for k in others) / US
        mean_us = chosen.pop("mean_us", r.uniform(80, 300))
        count = max(40, int(size * total_us / mean_us))
        name = chosen.pop("name", "planted")
        others.insert(r.randrange(len(others)), kernel(r, name, mean_us, count, **chosen))
        return write(directory / "p.hatchet", others)

    return make


def low(r: random.Random) -> float:
    return r.uniform(0.1, 0.4)


STALLS = {"selected": 0.15, "not_selected": 0.1, "wait": 0.12, "short_scoreboard": 0.08}


def stalled(reason: str) -> Callable[[random.Random], list[Node]]:
    return lambda r: samples(r, STALLS | {reason: r.uniform(0.45, 0.6)}, r.randint(3000, 9000))


def short_kernels(r: random.Random, directory: Path, size: float) -> Path:
    others = healthy(r)
    total_us = sum(k["metrics"]["time (ns)"] for k in others) / US
    for i in range(12):
        mean = r.uniform(1.6, 3.8)
        others.append(kernel(r, f"tiny_{i}", mean, max(40, int(size * total_us / 12 / mean))))
    return write(directory / "p.hatchet", others)


def critical_path(r: random.Random, directory: Path, size: float) -> Path:
    others = healthy(r)
    total_us = sum(k["metrics"]["time (ns)"] for k in others) / US
    cycles = r.randint(1_000_000, 4_000_000)
    path = r.uniform(0.5, 0.8)
    role = {"sampled_warps": 512, "warp_cycles": cycles * 4, "idle_cycles": 10, "path_cycles": 0}
    scopes = [
        node("wait_barrier@ws.py:30", {
            "busy_cycles": 0, "wait_cycles": cycles, "path_cycles": int(path * cycles)}),
        node("dot@ws.py:33", {
            "busy_cycles": cycles * 2, "path_cycles": int((1 - path) * cycles)}),
    ]  # fmt: skip
    ctas = {"recorded_ctas": 512, "sampled_ctas": 128, "cta_cycles": cycles, "unseen_cycles": 0}
    warps = node("<warps>", ctas, [node("default@ws.py:48 (warps 0-3)", role, scopes)])
    made = kernel(r, "planted", 200, int(size * total_us / 200), children=[warps])
    names = {**ctas, **role, "busy_cycles": 0, "wait_cycles": 0}
    file = write(directory / "p.hatchet", [*others, made])
    root, devices = json.loads(file.read_text())
    root["metrics"] |= dict.fromkeys(names, 0)
    file.write_text(json.dumps([root, devices]))
    return file


def trace(
    r: random.Random, directory: Path, gap_us: tuple[float, float], steps: int, streams: int = 1
) -> Path:
    """Kernels on streams in turns, each launched `gap_us` after the previous one's end; < 0: ahead.
    """
    f = File()
    thread, device = f.lane(1, 0, 4242, 0), f.device(0)
    lanes = [f.lane(2, device, 7 + i) for i in range(streams)]
    durations = [[r.randrange(30 * US, 90 * US) for _ in range(steps)] for _ in range(4)]
    nodes = []
    for i, times in enumerate(durations):
        row = struct.pack("<4I4Q", 0, device, 0, 0, steps, sum(times), min(times), max(times))
        nodes.append(f.node(0, f"k{i}", kind=3, kernel=f.add(5, row)))
    end = 500 * US
    for s in range(steps):
        for i, times in enumerate(durations):
            gap = int(r.uniform(*gap_us) * US)
            launch = f.event(LAUNCH, thread, nodes[i], end + gap - 2 * US, end + gap - US)
            start = end + max(gap, r.randrange(300, 1500))
            f.event(KERNEL, lanes[i % streams], nodes[i], start, start + times[s], link=launch)
            end = start + times[s]
    path = directory / "p.proton"
    f.write(path)
    return path


def launch_gaps(r: random.Random, directory: Path, size: float) -> Path:
    return trace(r, directory, (60 * size, 200 * size), r.randint(40, 80))


def slow_rank(r: random.Random, directory: Path, size: float, late: float | None = None) -> Path:
    world = r.choice([4, 8])
    slow = r.randrange(world)
    factor = 1 + (r.uniform(0.2, 0.4) * size if late is None else late)
    for rank in range(world):
        gemm = int(20e6 * r.gauss(1, 0.004) * (factor if rank == slow else 1))
        others = {f"k{i}": int(3e6 * r.gauss(1, 0.004)) for i in range(5)}
        step = {"forward": {"gemm": gemm, "gelu": gemm // 3}, "backward": others}
        write_rank(directory / "p.ranks", rank, {"step": step}, world=world)
    return directory / "p.ranks"


class RankFile(File):
    ROW_BYTES = [*File.ROW_BYTES, 24, 16, 40, 24, 8, 32, 96, 272, 280, 8, 8, 128]


def code(duration: int) -> int:
    """A duration as docs/format.md has it in 16 bits."""
    shift = max(0, duration.bit_length() - 12)
    return (shift << 11) + (duration >> shift)


def waiting_ranks(r: random.Random, directory: Path, size: float) -> Path:
    """One rank comes last in each all-reduce: its own is short, the others wait in it."""
    folder = directory / "p.ranks" / "000-999"
    folder.mkdir(parents=True)
    steps, late = r.randint(20, 45), r.randrange(4)
    for rank in range(4):
        f = RankFile()
        for key, value in (("rank", str(rank)), ("host", "node"), ("world_size", "4")):
            f.add(9, struct.pack("<2I", f.string(key), f.string(value)))
        device = f.device(0)
        more = int(400 * US * size)
        reduce = [r.randrange(30 * US, 40 * US) + (0 if rank == late else more)
                  for _ in range(steps)]  # fmt: skip
        gemm = [900 * US + r.randrange(20 * US) + (more if rank == late else 0)
                for _ in range(steps)]  # fmt: skip
        for name, times in (("gemm", gemm), ("ncclDevKernel_AllReduce", reduce)):
            row = struct.pack("<4I4Q", 0, device, 0, 0, steps, sum(times), min(times), max(times))
            last = f.node(0, name, kind=3, kernel=f.add(5, row))
        f.tables[28].append(bytes(128))
        codes = [code(t) for t in reduce] + [0] * (50 - steps)
        head = struct.pack("<7I", last, 0, 0, 1, steps, f.string("0-3"), 0)
        f.add(28, head + struct.pack("<50H", *codes))
        f.write(folder / f"rank{rank:06}.proton")
    return directory / "p.ranks"


# The kind that has to come first, and the maker: it takes a generator, a directory, a size.
CAUSES: dict[str, tuple[str, Callable[[random.Random, Path, float], Path]]] = {
    "few CTAs": ("few_ctas", with_kernel(grid=lambda r: r.randint(4, 60), memory=low)),
    "few CTAs, no roofline": ("few_ctas", with_kernel(grid=lambda r: r.randint(4, 40))),
    "tail wave": (
        "tail_wave",  # 8 CTAs of 256 threads per multiprocessor
        with_kernel(grid=lambda r: SMS * 8 + r.randint(10, 200), memory=low),
    ),
    "registers": (
        "low_occupancy", with_kernel(registers=lambda r: r.randint(200, 255), block=256, memory=low)
    ),
    "shared memory": (
        "low_occupancy",
        with_kernel(shared=lambda r: r.randint(120, 220) * 1024, block=128, arithmetic=low),
    ),
    "spills": ("low_occupancy", with_kernel(registers=255, block=128, memory=low)),
    "short kernels": ("short_kernels", short_kernels),
    "copies": (
        "memory_copies", with_kernel(name="Memcpy HtoD (Pageable -> Device)", grid=-1, mean_us=400)
    ),
    "FP32 products": (
        "fp32_products", with_kernel(name="ampere_sgemm_128x64_nn", grid=-1, mean_us=500)
    ),
    "FP32 products, another name": (
        "fp32_products",
        with_kernel(name="sm80_xmma_gemm_f32f32_f32f32_f32_nn_ffma_x", grid=-1, mean_us=500),
    ),
    "launch gaps": ("launch_gaps", launch_gaps),
    "loads": ("stall", with_kernel(children=stalled("long_scoreboard"), memory=low)),
    "barrier": ("stall", with_kernel(children=stalled("barrier"))),
    "bank conflicts": ("stall", with_kernel(children=stalled("mio_throttle"), memory=low)),
    "critical path": ("critical_path", critical_path),
    "waiting ranks": ("waiting_ranks", waiting_ranks),
    "slow rank": ("slow_rank", slow_rank),
    "memory": ("far_from_peak", with_kernel(memory=low, arithmetic=0.03)),
    "arithmetic": ("far_from_peak", with_kernel(arithmetic=low, memory=0.03)),
    "one kernel": ("dominant_kernel", with_kernel(grid=-1)),
}  # fmt: skip
SIZES = (0.5, 3.0)

CLEAN: dict[str, Callable[[random.Random, Path], Path]] = {
    "many kernels": lambda r, d: write(d / "p.hatchet", healthy(r, 12)),
    "one kernel at the peak": lambda r, d: with_kernel(memory=0.9, arithmetic=0.3)(r, d, 4),
    "a fast kernel with one CTA per multiprocessor": lambda r, d: with_kernel(
        arithmetic=0.85, registers=240, block=256, shared=200 * 1024
    )(r, d, 4),
    "stalls of a kernel at the peak": lambda r, d: with_kernel(
        memory=0.9, children=stalled("long_scoreboard")
    )(r, d, 4),
    "products of TF32": lambda r, d: with_kernel(
        name="cutlass_80_tensorop_s1688gemm_128x128_nn", grid=-1, arithmetic=0.85
    )(r, d, 4),
    "a busy trace": lambda r, d: trace(r, d, (-60, -20), 60),
    # Defects that no record shows.
    "a kernel that is launched twice": lambda r, d: write(
        d / "p.hatchet", [kernel(r, "twice", 100, 400, memory=0.9), *healthy(r)]
    ),
    "streams that wait for one another": lambda r, d: trace(r, d, (-60, -20), 60, streams=2),
    "equal ranks": lambda r, d: slow_rank(r, d, 1, late=0),
}
