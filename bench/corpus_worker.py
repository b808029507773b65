"""Compiles kernels without a GPU, plain and instrumented: one JSON line on stdout per event.

Started by bench/corpus.py as `corpus_worker.py MODE FOLDER...`, which sends lines
"FILE<tab>KERNEL<tab>TARGET..." and starts another worker if this one crashes or takes too long. The
folders are searched for modules.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
import warnings
from typing import Any

import corpus_kernels

TRIES = 5
# Other arguments do not help: this Triton lacks something, or the module was not loaded completely.
HOPELESS = ("have been removed", "is not defined", "has no attribute", "Anything", "Cannot access")
_warnings: list[str] = []
_modules: dict[str, Any] = {}
_canaries: dict[str, bool] = {}


def answer(**values: Any) -> None:
    os.write(_out, (json.dumps(values) + "\n").encode())


class Driver:
    """Modules ask it which GPU there is."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        return lambda *args, **named: [0.0]

    def __getattr__(self, name: str) -> Any:
        return corpus_kernels.Anything()


def load(file: str, folders: list[str]) -> Any:
    if file in _modules:
        return _modules[file]
    folder = next((f for f in folders if file.startswith(f + "/")), None)
    relative = os.path.relpath(file, folder) if folder else os.path.basename(file)
    name = re.sub(r"\.py$", "", relative).replace("/", ".")
    name = re.sub(r"\.__init__$", "", name)
    if folder and all(part.isidentifier() for part in name.split(".")):
        module = importlib.import_module(name)
    else:
        loader = corpus_kernels.StatementLoader(f"corpus_{len(_modules)}", file)
        spec = importlib.util.spec_from_loader(loader.name, loader)
        module = importlib.util.module_from_spec(spec)
        module.__file__ = file
        sys.modules[loader.name] = module
        loader.exec_module(module)
    _modules[file] = module
    return module


def target_of(arch: str) -> Any:
    from triton.backends.compiler import GPUTarget

    if arch.startswith("sm_"):
        return GPUTarget("cuda", int(arch[3:]), 32)
    return GPUTarget("hip", arch, 64)


def compile_once(found: Any, arch: str) -> tuple[Any, float]:
    import triton
    from triton.compiler import ASTSource

    function, (signature, constants, options) = found
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (name, kind) in enumerate(signature.items())
        if kind.startswith("*") or (kind == "i32" and "stride" in name)
    }
    mode = triton.knobs.compilation.instrumentation_mode
    source = ASTSource(function, signature, constexprs=constants, attrs=aligned)
    start = time.perf_counter()
    made = triton.compile(
        source, target=target_of(arch), options={**options, "instrumentation_mode": mode}
    )
    return made, time.perf_counter() - start


def needs_of(made: Any, arch: str, seconds: float) -> dict[str, Any]:
    from triton_proton._libproton import cubin_needs
    from triton_proton._registers import ctas_of

    needs: dict[str, Any] = {"seconds": round(seconds, 3), "shared": made.metadata.shared}
    if arch.startswith("sm_"):
        needs["registers"], needs["local"] = cubin_needs(made.asm["cubin"])
        needs["ctas"] = ctas_of(arch, needs["registers"], made.metadata._asdict())
        return needs
    text = made.asm["amdgcn"]

    def number(key: str) -> int:
        found = re.search(rf"^\s*\.{key}:\s*(\d+)", text, re.M)
        return int(found[1]) if found else 0

    needs["registers"], needs["local"] = number("vgpr_count"), number("private_segment_fixed_size")
    return needs


def known_work(made: Any, signature: dict[str, str]) -> dict[str, bool]:
    """Whether the work of a launch with guessed integers is known."""
    from triton_proton import _libproton

    def guess(name: str, kind: str) -> Any:
        if kind[0] not in "iu":
            return None
        small = re.search(r"head|group|num_|^[bh]$|batch|topk", name, re.I)
        return 0 if "offset" in name.lower() else 8 if small else 512

    given = [guess(name, kind) for name, kind in signature.items() if kind != "constexpr"]
    try:
        kernel = _libproton.work_read(made.asm["ttir"])
        metrics, _, flops = _libproton.work_count(kernel, (16, 8, 2), tuple(given))
    except Exception:
        return {"flops": False, "requested": False, "bytes": False}
    return {"flops": flops >= 0, "requested": "requested_bytes" in metrics,
            "bytes": "bytes" in metrics}


def instrumented(found: Any, arch: str) -> dict[str, Any]:
    from triton_proton import _instrument

    _warnings.clear()
    _instrument.start(sys.argv[1])
    # A program compiles one canary, not one for each kernel.
    _instrument._pipeline._canaries = _canaries
    try:
        made, seconds = compile_once(found, arch)
    finally:
        _instrument.stop()
    needs = needs_of(made, arch, seconds)
    layout = getattr(made.metadata, "proton_layout", "")
    needs["scopes"] = len(re.findall(r"^scope ", layout, re.M))
    left_out = [re.search(r"(\d+) of (\d+) automatic scopes were omitted", s) for s in _warnings]
    needs["omitted"] = sum(int(m[1]) for m in left_out if m)
    needs["cost_reported"] = any("its scopes cost" in s for s in _warnings)
    needs["messages"] = sorted({re.sub(r"^[^:]*: ", "", s)[:400] for s in _warnings})
    return needs


def work(file: str, name: str, targets: list[str], folders: list[str]) -> None:
    kernel = getattr(load(file, folders), name)
    function = corpus_kernels.unwrap(kernel)[0]
    found, first, error = None, None, "no arguments found"
    for tries, guess in enumerate(corpus_kernels.guesses(kernel)):
        if tries >= TRIES:
            break
        try:
            first = compile_once((function, guess), targets[0])
            found = function, guess
            break
        except Exception as reason:
            error = (str(reason).strip().splitlines() or [repr(reason)])[-1][:200]
            if any(word in str(reason) for word in HOPELESS):
                break
    if found is None:
        answer(event="skipped", why=error)
        return
    for arch in targets:
        try:
            plain, seconds = first if first is not None else compile_once(found, arch)
            first = None
            before = needs_of(plain, arch, seconds)
        except Exception:
            continue  # not for this target
        answer(event="plain", arch=arch, work=known_work(plain, found[1][0]))
        try:
            after = instrumented(found, arch)
        except Exception as reason:
            answer(event="failed", arch=arch, why=str(reason)[-300:])
            continue
        answer(event="pair", arch=arch, plain=before, scopes=after)
    answer(event="done")


def main() -> None:
    import torch
    import triton
    from triton_proton import _instrument, _markers, _registers

    warnings.simplefilter("ignore")
    folders = sys.argv[2:]
    corpus_kernels.install(folders)
    triton.runtime.driver.set_active(Driver())
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    triton.knobs.compilation.always_compile = True
    for module in (_instrument, _markers, _registers):
        module.warn = lambda text, **named: _warnings.append(text)
    answer(event="ready", triton=triton.__version__)
    for line in sys.stdin:
        file, name, *targets = line.rstrip("\n").split("\t")
        try:
            work(file, name, targets, folders)
        except Exception as reason:
            answer(event="skipped", why=repr(reason)[:200])


if __name__ == "__main__":
    # Modules print to stdout too, so the answers have another stream.
    _out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    main()
