#!/usr/bin/env python3
"""The cost of automatic scopes in the kernels of packages from PyPI.

    bench/corpus.py [--cache DIR] [--tree DIR]... [--per-package N] [--seconds N] [--output FILE]
    bench/corpus.py --worst N [--mode MODE] [--output FILE]

Downloads packages with Triton kernels from PyPI into a cache outside of this repository (nothing is
installed, and nothing of them is kept elsewhere), finds their kernels, and compiles them for one
architecture each, in turns, without and with `auto=all`, by the ptxas and the LLVM of the Triton
that Python finds. Nothing runs, so no GPU is needed. --tree adds source trees, such as Triton's
tutorials. A kernel that does not compile with any of the guessed arguments is not counted; which
kernels those are depends on the versions of the packages. --worst compiles again those N kernels
for NVIDIA GPUs that needed most additional registers in bench/results/corpus.json.

Prints the distributions of registers, local memory, CTAs per multiprocessor, omitted scopes and
compile time, and writes them with all figures to bench/results/corpus.json. The shares of kernels
with known flops and bytes (hook "triton") are for guessed integers.
"""

from __future__ import annotations

import argparse
import datetime
import glob
import itertools
import json
import os
import queue
import select
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import corpus_kernels
import report

PACKAGES = (
    "liger-kernel", "fla-core", "sglang", "vllm", "flag-gems", "torchao", "unsloth", "lmdeploy",
    "bitsandbytes", "sageattention", "cut-cross-entropy", "autoawq", "fbgemm-gpu",
)
TARGETS = ("sm_90", "gfx942", "sm_80", "sm_100", "gfx950", "sm_120", "gfx90a")
# Each kernel is compiled for one of them, in turns, or for all with --every-target.
TURNS = ("sm_90", "gfx942", "sm_90", "sm_100", "sm_80", "sm_90", "gfx950", "sm_120", "gfx90a")
# Maximums of figures.
LIMITS = {"registers, p99": 32, "costly without a warning": 0, "compile time, median": 1.5}
HERE = Path(__file__).resolve().parent


# ------------------------------------------------------------------ packages


def download(name: str, cache: Path) -> Optional[Path]:
    """The folder with the Python files of a package; None if it cannot be had."""
    wheels, folder = cache / "wheels", cache / "files" / name
    pattern = str(wheels / f"{name.replace('-', '_')}-*.whl")
    if not glob.glob(pattern):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary",
                   ":all:", "-d", str(wheels), name]
        if subprocess.run(command, timeout=600).returncode:
            print(f"{name}: not downloaded", flush=True)
            return None
    if not folder.exists():
        with zipfile.ZipFile(sorted(glob.glob(pattern))[-1]) as wheel:
            members = [m for m in wheel.namelist() if m.endswith(".py") and ".." not in m]
            wheel.extractall(folder, members)
    return folder


def version_of(name: str, cache: Path) -> str:
    wheels = sorted(glob.glob(str(cache / "wheels" / f"{name.replace('-', '_')}-*.whl")))
    return os.path.basename(wheels[-1]).split("-")[1] if wheels else ""


def kernels_below(folder: Path) -> list[tuple[str, str]]:
    """Files and names of the kernels, one of each file first."""
    files: list[list[tuple[str, str]]] = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8", errors="replace")
        if "jit" not in text or "triton" not in text:
            continue
        try:
            files.append([(str(file), name) for name in corpus_kernels.kernels_in(text)])
        except (SyntaxError, ValueError):
            continue
    turns = itertools.zip_longest(*files)
    return [kernel for turn in turns for kernel in turn if kernel is not None]


def spread(kernels: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """About `count` of them, evenly distributed over the files; the others after them."""
    step = max(1, len(kernels) // max(1, count))
    return [k for start in range(step) for k in kernels[start::step]]


# ------------------------------------------------------------------ workers


class Worker:
    """bench/corpus_worker.py, started again whenever it crashes or takes too long."""

    def __init__(self, mode: str, folders: list[str], cache: Path, limit: float) -> None:
        self.mode, self.folders, self.cache, self.limit = mode, folders, cache, limit
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.rest = b""

    def start(self) -> None:
        environment = {
            **os.environ,
            "TRITON_CACHE_DIR": str(self.cache / "triton"),
            "PYTHONPATH": str(HERE),
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "corpus_worker.py"), self.mode, *self.folders],
            # Modules that are loaded may write files.
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=self.cache,
        )
        self.rest = b""
        assert self.answer(120)["event"] == "ready"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next event; "crashed" or "late" if there is none."""
        assert self.process is not None and self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            rest = max(0.0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], rest)[0]:
                return {"event": "late"}
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return {"event": "crashed"}
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def compile(self, file: str, name: str, targets: list[str]) -> list[dict[str, Any]]:
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write("\t".join([file, name, *targets]).encode() + b"\n")
        self.process.stdin.flush()
        events: list[dict[str, Any]] = []
        end = time.monotonic() + self.limit
        while not events or events[-1]["event"] not in ("done", "skipped", "late", "crashed"):
            events.append(self.answer(end - time.monotonic()))
        if events[-1]["event"] in ("late", "crashed"):
            self.stop()
        return events


class Corpus:
    def __init__(self, arguments: argparse.Namespace, folders: dict[str, Path]) -> None:
        self.arguments, self.folders = arguments, folders
        self.pairs: list[dict[str, Any]] = []
        self.failed: list[dict[str, Any]] = []
        self.counts = {name: [0, 0] for name in folders}  # compiled, tried
        self.work: list[dict[str, bool]] = []  # which work of a kernel is known
        self.lock, self.start = threading.Lock(), time.monotonic()
        self.queue: queue.Queue[tuple[str, str, str, list[str]]] = queue.Queue()
        for job in self.worst(arguments.worst) if arguments.worst else self.turns():
            self.queue.put(job)

    def worst(self, count: int) -> Iterator[tuple[str, str, str, list[str]]]:
        """The kernels of the stored results with the largest increase of registers."""
        pairs = json.loads((HERE / "results" / "corpus.json").read_text())["pairs"]
        pairs = [pair for pair in pairs if pair["target"].startswith("sm_")]
        pairs.sort(key=lambda p: p["plain"]["registers"] - p["scopes"]["registers"])
        for pair in pairs[:count]:
            if pair["package"] in self.folders:
                file = str(self.folders[pair["package"]] / pair["file"])
                yield pair["package"], file, pair["kernel"], [pair["target"]]

    def turns(self) -> Iterator[tuple[str, str, str, list[str]]]:
        """Kernels of all packages in turns, each for the next architecture."""
        count = 2 * self.arguments.per_package
        turns = itertools.zip_longest(*(
            [(name, *kernel) for kernel in spread(kernels_below(folder), count)]
            for name, folder in self.folders.items()
        ))
        one = itertools.cycle(TURNS)
        for job in (job for turn in turns for job in turn if job is not None):
            yield (*job, list(TARGETS) if self.arguments.every_target else [next(one)])

    def take(self, package: str, file: str, name: str, events: list[dict[str, Any]]) -> None:
        place = os.path.relpath(file, self.folders[package])
        about = {"package": package, "file": place, "kernel": name}
        pairs = [event for event in events if event["event"] == "pair"]
        for event in pairs:
            about_pair = {**about, "target": event["arch"]}
            self.pairs.append({**about_pair, "plain": event["plain"], "scopes": event["scopes"]})
        self.work += [event["work"] for event in events if event["event"] == "plain"]
        for event in events:
            if event["event"] == "failed":
                self.failed.append({**about, "target": event["arch"], "why": event["why"]})
        # Kernels of which ptxas takes too long do not count: it does so without scopes too.
        if events[-1]["event"] == "crashed" and len(events) > 1 and events[-2]["event"] == "plain":
            self.failed.append({**about, "target": events[-2]["arch"], "why": "crashed"})
        self.counts[package][0] += bool(pairs)
        self.counts[package][1] += 1

    def run(self, end: float) -> None:
        worker = Worker(
            self.arguments.mode, [str(folder) for folder in self.folders.values()],
            self.arguments.cache, self.arguments.kernel_seconds,
        )
        while time.monotonic() < end:
            try:
                package, file, name, targets = self.queue.get_nowait()
            except queue.Empty:
                break
            if self.counts[package][0] >= self.arguments.per_package:
                continue
            events = worker.compile(file, name, targets)
            with self.lock:
                self.take(package, file, name, events)
                if len(self.pairs) % 20 == 0 and self.pairs:
                    write(summary(self, time.monotonic() - self.start), self.arguments.output)
                print(f"{len(self.pairs):5} pairs  {package} {name}: {events[-1]['event']} "
                      f"{events[-1].get('why', '')}"[:150], flush=True)
        worker.stop()


# ------------------------------------------------------------------ distributions


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def distribution(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of the table for some pairs of a plain and an instrumented kernel."""
    more = [p["scopes"]["registers"] - p["plain"]["registers"] for p in pairs]
    local = [p for p in pairs if p["scopes"]["local"] > p["plain"]["local"]]
    fewer = [p for p in pairs if p["scopes"].get("ctas", 0) < p["plain"].get("ctas", 0)]
    costly = {id(p): p for p in local + fewer}.values()
    times = [p["scopes"]["seconds"] / p["plain"]["seconds"] for p in pairs]
    kept = sum(p["scopes"]["scopes"] for p in pairs)
    omitted = sum(p["scopes"]["omitted"] for p in pairs)
    return {
        "pairs": len(pairs),
        "registers": {
            "median": statistics.median(more) if more else 0,
            "p90": quantile(more, 0.9), "p99": quantile(more, 0.99), "max": max(more, default=0),
        },
        "more local memory": len(local),
        "local memory, first time": sum(not p["plain"]["local"] for p in local),
        "fewer CTAs": len(fewer),
        "costly without a warning": sum(not p["scopes"]["cost_reported"] for p in costly),
        "without a scope": sum(not p["scopes"]["scopes"] for p in pairs),
        "scopes": kept,
        "scopes omitted": omitted,
        "compile time": {
            "median": round(statistics.median(times), 2) if times else 0,
            "p90": round(quantile(times, 0.9), 2),
        },
    }


def show(name: str, one: dict[str, Any]) -> None:
    r, t = one["registers"], one["compile time"]
    print(
        f"{name:8} {one['pairs']:5} {r['median']:+6.0f} {r['p90']:+5} {r['p99']:+5} {r['max']:+5} "
        f"{one['more local memory']:6} {one['fewer CTAs']:5} {one['costly without a warning']:7} "
        f"{one['without a scope']:8} {one['scopes omitted']:8} {t['median']:8.2f} {t['p90']:5.2f}"
    )


def rows_of(name: str, one: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a distribution, as the other files in bench/results have them."""
    figures = {f"registers, {key}": value for key, value in one["registers"].items()}
    figures |= {key: value for key, value in one.items() if isinstance(value, int)}
    figures |= {f"compile time, {key}": value for key, value in one["compile time"].items()}
    return [
        report.row(
            f"{name}: {about}",
            "x" if "time" in about else "",
            ours=value,
            target=f"at most {LIMITS[about]:g}" if about in LIMITS else None,
            met=value <= LIMITS[about] if about in LIMITS else None,
        )
        for about, value in figures.items()
    ]


def work_rows(known: list[dict[str, bool]]) -> list[dict[str, Any]]:
    """Shares of the kernels for which TTIR tells the work of a launch."""
    shares = {key: sum(one[key] for one in known) / max(1, len(known))
              for key in ("flops", "requested", "bytes")}
    return [
        report.row(f"work known: {key}", "", ours=round(share, 3),
                   target="at least 0.9" if key == "flops" else None,
                   met=share >= 0.9 if key == "flops" else None)
        for key, share in shares.items()
    ]


def summary(corpus: Corpus, seconds: float) -> dict[str, Any]:
    cache = corpus.arguments.cache
    targets = {t: distribution([p for p in corpus.pairs if p["target"] == t]) for t in TARGETS}
    nvidia = [p for p in corpus.pairs if p["target"].startswith("sm_")]
    kernels = {(p["package"], p["file"], p["kernel"]) for p in corpus.pairs}
    return {
        "date": datetime.date.today().isoformat(),
        "versions": report.versions("triton"),
        "mode": corpus.arguments.mode,
        "seconds": round(seconds),
        "kernels": len(kernels),
        "failed": corpus.failed,
        "packages": {
            name: {"version": version_of(name, cache), "compiled": done, "tried": tried}
            for name, (done, tried) in corpus.counts.items()
        },
        "rows": [
            *work_rows(corpus.work),
            *rows_of("NVIDIA", distribution(nvidia)),
            *rows_of("all", distribution(corpus.pairs)),
        ],
        "nvidia": distribution(nvidia),
        "all": distribution(corpus.pairs),
        "targets": targets,
        "pairs": corpus.pairs,
    }


def write(made: dict[str, Any], output: Path) -> None:
    """The figures, and each pair on one line."""
    head = json.dumps({key: value for key, value in made.items() if key != "pairs"}, indent=1)
    pairs = ",\n".join("  " + json.dumps(pair) for pair in made["pairs"])
    output.write_text(head[:-2] + ',\n "pairs": [\n' + pairs + "\n ]\n}\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    parser.add_argument("--cache", type=Path, default=Path(home) / "proton-corpus")
    parser.add_argument("--package", action="append", help="only these; repeatable")
    parser.add_argument("--tree", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--worst", type=int, metavar="N", help="of bench/results/corpus.json")
    parser.add_argument("--mode", default="default:auto=all")
    parser.add_argument("--every-target", action="store_true", help="all for each kernel")
    parser.add_argument("--per-package", type=int, default=24, metavar="N")
    parser.add_argument("--seconds", type=float, default=1800, help="for all kernels")
    parser.add_argument("--kernel-seconds", type=float, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "corpus.json")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    arguments.cache = arguments.cache.resolve()
    (arguments.cache / "wheels").mkdir(parents=True, exist_ok=True)
    folders = {}
    for name in arguments.package if arguments.package is not None else PACKAGES:
        folder = download(name, arguments.cache) if name else None
        if folder is not None:
            folders[name] = folder.resolve()
    for tree in arguments.tree:
        folders[tree.name] = tree.resolve()
    corpus = Corpus(arguments, folders)
    threads = [
        threading.Thread(target=corpus.run, args=(corpus.start + arguments.seconds,))
        for _ in range(arguments.jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = summary(corpus, time.monotonic() - corpus.start)
    write(made, arguments.output)
    print(f"\n{made['kernels']} kernels, {len(corpus.failed)} failed with scopes\n"
          f"{'':8} {'pairs':>5}  {'registers: median p90 p99 max':>24} {'local':>6} {'CTAs':>5} "
          f"{'silent':>7} {'no scope':>8} {'omitted':>8} {'compile':>8} {'p90':>5}")
    for target in TARGETS:
        show(target, made["targets"][target])
    show("NVIDIA", made["nvidia"])
    show("all", made["all"])


if __name__ == "__main__":
    main()
