"""How often `proton-viewer --brief` names the right cause first: planted causes, and none.

    python bench/evidence.py --build DIR [--seeds N] [--write]

tests/python/planted.py makes profiles with one planted cause each, in two sizes, and clean ones; a
seed changes all of their numbers. A row has the share of profiles with the planted kind in the
first claim, for clean ones that of profiles without a claim of high confidence. The generator and
the rules have one author: only programs of others give an independent score.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import report
from viewer import machine

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
import planted

LIMIT = 0.8


def cases(seed: int, directory: Path) -> Iterator[tuple[str, str, Path]]:
    """The name, the planted kind ("" of clean ones) and the profile."""
    for name, (kind, make) in planted.CAUSES.items():
        for size in planted.SIZES:
            place = Path(tempfile.mkdtemp(dir=directory))
            yield name, kind, make(random.Random(f"{seed} {name} {size}"), place, size)
    for name, make_clean in planted.CLEAN.items():
        place = Path(tempfile.mkdtemp(dir=directory))
        yield f"clean: {name}", "", make_clean(random.Random(f"{seed} {name}"), place)


def is_right(data: dict, kind: str) -> bool:
    """Whether the first claim is of that kind; of a clean profile: none is of high confidence."""
    return is_right_of(data, (kind,) if kind else ())


def is_right_of(data: dict, kinds: tuple[str, ...]) -> bool:
    """The same for several kinds."""
    if kinds:
        return bool(data["claims"]) and data["claims"][0]["kind"] in kinds
    return all(claim["confidence"] != "high" for claim in data["claims"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    viewer = os.path.join(os.path.abspath(options.build), "src", "proton-viewer")
    right: dict[str, list[bool]] = {}
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as directory:
            for name, kind, path in cases(seed, Path(directory)):
                command = [viewer, "--brief", "--json", *planted.PEAKS, str(path)]
                done = subprocess.run(command, check=True, capture_output=True)
                right.setdefault(name, []).append(is_right(json.loads(done.stdout), kind))
    causes = [one for name, found in right.items() if name in planted.CAUSES for one in found]
    clean = [one for name, found in right.items() if name not in planted.CAUSES for one in found]
    rows = [
        report.row(f"{name}, {len(found)} profiles", "share", ours=sum(found) / len(found))
        for name, found in right.items()
    ]
    for work, found, limit in (("all planted causes", causes, LIMIT), ("all clean", clean, 1.0)):
        share = sum(found) / len(found)
        target = f"at least {limit:g}"
        work = f"{work}, {len(found)} profiles"
        rows.append(report.row(work, "share", ours=share, target=target, met=share >= limit))
    for one in rows:
        report.show(one)
    if options.write:
        report.write("evidence", machine(), report.versions(), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
