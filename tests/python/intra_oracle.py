"""The passes of Triton's own profiler, which are in Triton's wheel, for comparison.

Its operations take the place of our markers in a kernel's TTGIR, and Triton's compiler runs its
passes from there on.
"""

import re

import pytest
from intra_support import SHARED, Compiled, target_of
from triton._C.libtriton import ir, passes
from triton.backends import backends
from triton.compiler import make_backend
from triton_proton._markers import temporary_file

MARKER = re.compile(
    r'^( *)%\S+ = tt\.elementwise_inline_asm "// proton\.record (start|end) ([^"]+)" .*?-> i32',
    re.M,
)
EVENT = re.compile(r'^ *%\S+ = tt\.elementwise_inline_asm "// proton\.event .*\n', re.M)


class Oracle:
    """Registers the passes in Triton's pipeline while it is entered."""

    def __init__(self, arch: str) -> None:
        self.proton = pytest.importorskip("triton._C.libtriton").proton
        self.arch = arch
        self.backend = "amd" if arch.startswith("gfx") else "nvidia"

    def _to_records(self, pm) -> None:
        proton = self.proton
        proton.add_convert_proton_to_protongpu(
            pm, proton.METRIC_TYPE.CYCLE, proton.SAMPLING_STRATEGY.NONE, "",
            proton.GRANULARITY.WARP, proton.BUFFER_STRATEGY.CIRCULAR, proton.BUFFER_TYPE.SHARED, 0,
            SHARED[self.arch][0], 1, 128, False,
        )
        passes.common.add_cse(pm)
        proton.add_allocate_proton_shared_memory(pm)

    def _to_llvm(self, pm) -> None:
        if hasattr(self.proton, "add_allocate_proton_global_scratch_buffer"):  # up to 3.7
            self.proton.add_allocate_proton_global_scratch_buffer(pm)
        if self.backend == "amd":
            self.proton.add_convert_proton_amd_gpu_to_llvm(pm, self.arch)
        else:
            self.proton.add_convert_proton_nvidia_gpu_to_llvm(pm)

    def __enter__(self) -> "Oracle":
        try:
            from triton import _instrumentation
        except ImportError:  # before 3.9
            from triton.profiler.hooks.instrumentation import Instrumentation

            backends[self.backend].compiler.instrumentation = Instrumentation(
                {"ttgpuir_to_llvmir": self._to_records, "llvmir_to_llvm": self._to_llvm}
            )
            return self
        for point, callback in (
            ("load-dialects", self.proton.load_dialects),
            ("ttgpuir-to-llvmir", self._to_records),
            ("llvmir-to-llvm", self._to_llvm),
        ):
            _instrumentation.register_instrumentation(
                point=point, backend=self.backend, callback=callback
            )
        return self

    def __exit__(self, *_) -> None:
        try:
            from triton import _instrumentation
        except ImportError:
            backends[self.backend].compiler.instrumentation = None
            return
        for point in ("load-dialects", "ttgpuir-to-llvmir", "llvmir-to-llvm"):
            _instrumentation.unregister_instrumentation(point=point, backend=self.backend)


def with_records(ttgir: str) -> str:
    """TTGIR with operations of Triton's profiler in place of markers of scopes."""
    return EVENT.sub("", MARKER.sub(r'\1proton.record \2 "\3"', ttgir))


def instrument_by_triton(compiled: Compiled) -> tuple[set[str], dict[str, int]]:
    """The scopes that Triton's profiler finds in a kernel, and what its code needs.

    RuntimeError if it cannot instrument the kernel.
    """
    with Oracle(compiled.arch) as oracle:
        context = ir.context()
        ir.load_dialects(context)
        make_backend(target_of(compiled.arch)).load_dialects(context)
        oracle.proton.load_dialects(context)
        with temporary_file(with_records(compiled.ttgir), ".mlir") as path:
            module = ir.parse_mlir_module(path, context)
        module.context = context
        names = {name for _, name in oracle.proton.get_scope_id_names(module)}
        metadata = dict(compiled.before)
        text = compiled.stages["llir"](module, metadata)
    return names, compiled.assemble(text, metadata["shared"])
