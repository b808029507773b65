#!/usr/bin/env python3
"""Register usage of records: a table of the kernels in tests/python/intra_shapes.py.

Every kernel for every architecture it is for, without and with records, assembled by the ptxas and
the LLVM of the Triton that Python finds; nothing runs, so no GPU is needed and the figures are the
same every time. Usage, with PROTON_TEST_BUILD naming a Meson build:

    bench/registers.py [--kernel WORD] [--arch WORD] [--free] [--cache DIR] [--keep DIR] [K=V...]

The last are options of tests/tools/instrument. Kernels with records are assembled as sessions do
it (triton_proton/_registers.py, of the installed package), with --free as ptxas likes. --cache
keeps Triton's LLVM IR and all figures between runs, --keep writes both texts there.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import pytest
import triton
from intra_shapes import CASES, Case
from intra_support import (
    SHARED,
    Compiled,
    compile_to_llvm,
    costs_of,
    instrument,
    is_for,
    stages_of,
    without_markers,
)


def load(case: Case, arch: str, cache: Path | None) -> Compiled | str:
    """The kernel's LLVM IR, from `cache` if it is there; an error message if there is none."""
    file = cache / f"{triton.__version__}-{case.name}-{arch}.json" if cache else None
    if file and file.exists():
        known = json.loads(file.read_text())
        if "why" in known:
            return known["why"]
        prepare(arch)
        return Compiled(known["text"], known["metadata"], stages_of(case, arch), arch)
    try:
        kernel = compile_to_llvm(case, arch)
    except pytest.skip.Exception as skipped:
        if file:
            file.write_text(json.dumps({"why": str(skipped).splitlines()[0]}))
        return str(skipped).splitlines()[0]
    if file:
        metadata = {k: v for k, v in kernel.metadata.items() if is_plain(v)}
        file.write_text(json.dumps({"text": kernel.text, "metadata": metadata}))
    return kernel


@functools.lru_cache(maxsize=None)
def prepare(arch: str) -> None:
    """Triton sets options of LLVM for the whole process where it makes LLVM IR."""
    compile_to_llvm(CASES[0], arch)


def is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def assemble(
    kernel: Compiled, text: str, shared: int, cache: Path | None, how: str
) -> dict[str, int]:
    name = hashlib.sha256(f"{triton.__version__} {kernel.arch} {shared} {how} {text}".encode())
    file = cache / f"{name.hexdigest()}.json" if cache else None
    if file and file.exists():
        return json.loads(file.read_text())
    needs = getattr(kernel, how)(text, shared)
    if file:
        file.write_text(json.dumps(needs))
    return needs


def memory(needs: dict[str, int]) -> int:
    return sum(v for k, v in needs.items() if k not in ("registers", "scalars"))


def row(case: Case, arch: str, words: dict[str, str], arguments: argparse.Namespace) -> int:
    kernel = load(case, arch, arguments.cache)
    if isinstance(kernel, str):
        return 0
    result = instrument(kernel, **words)
    plain_text = without_markers(kernel.text)
    if arguments.keep:
        name = f"{triton.__version__}-{case.name}-{arch}"
        (arguments.keep / f"{name}.plain.ll").write_text(plain_text)
        (arguments.keep / f"{name}.marks.ll").write_text(result.text)
    plain = assemble(kernel, plain_text, kernel.metadata["shared"], arguments.cache, "assemble")
    records = assemble(kernel, result.text, result.shared, arguments.cache, arguments.how)
    if result.can_hoist and arguments.how == "assemble_records":
        hoisted = instrument(kernel, hoist=1, **words)
        fewer = assemble(kernel, hoisted.text, hoisted.shared, arguments.cache, arguments.how)
        if costs_of(kernel, hoisted, fewer).is_less_than(costs_of(kernel, result, records)):
            records = fewer
    more = records["registers"] - plain["registers"]
    print(
        f"{case.name:20} {arch:7} {plain['registers']:4} {records['registers']:4} {more:+4}  "
        f"{memory(plain):4} {memory(records):4}  ring buffer {result.layout['ring'][0]:>5}"
        f"{'  <--' if more > 6 or memory(records) > memory(plain) else ''}",
        flush=True,
    )
    return more


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="")
    parser.add_argument("--arch", default="")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument(
        "--free",
        dest="how",
        action="store_const",
        const="assemble",
        default="assemble_records",
        help="with as many registers as ptxas takes by itself",
    )
    parser.add_argument("words", nargs="*", help="options of tests/tools/instrument")
    arguments = parser.parse_args()
    words = dict(word.split("=", 1) for word in arguments.words)
    print(f"Triton {triton.__version__}\n{'':28} registers       bytes of stack and local memory")
    print(f"{'kernel':20} {'for':7} plain with more  plain with")
    for case in CASES:
        for arch in SHARED:
            if arguments.kernel in case.name and arguments.arch in arch and is_for(case, arch):
                row(case, arch, words, arguments)


if __name__ == "__main__":
    main()
