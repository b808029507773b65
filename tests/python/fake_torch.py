"""A fake `torch` for the examples: tensors without memory, on the GPU of a fake libamdhip64.

Tests copy it as torch.py to where a script finds it first. Each launch of an instrumented kernel
leaves records or sums as a kernel would: every scope takes 100 cycles of each warp that is sampled.
"""

import ctypes
import math
import os
import re

import triton
import triton.language as tl
from fake_hip import STREAM, Driver, store_wave, wave, write_waves
from triton.runtime.jit import MockTensor

float16, float32 = tl.float16, tl.float32


class Tensor(MockTensor):
    def __init__(self, shape, dtype):
        super().__init__(dtype, shape)

    def numel(self):
        return math.prod(self.shape)

    def __add__(self, other):
        return self

    __matmul__ = __add__


def rand(*shape, device=None, dtype=float32):
    return Tensor(shape, dtype)


randn = rand


def empty_like(tensor):
    return Tensor(tensor.shape, tensor.dtype)


def equal(one, other):
    return True


class testing:
    @staticmethod
    def assert_close(one, other, **tolerances):
        pass


class cuda:
    @staticmethod
    def get_device_capability():
        return 8, 0


# ------------------------------------------------------------------ the device


def sums_of(layout):
    """The wave() of a kernel with sums: one execution of 100 cycles at each place of a scope."""
    words = [0] * 1024
    last = 0
    for key, which, word, times in re.findall(r"^(starts|ends) (\d+) (\d+) (\d+)$", layout, re.M):
        last = max(last, int(word))
        words[int(word)] = 1
        words[int(which)] += 100 * int(times) * (key == "ends")

    def wave(at, to, number, unit, codes):
        place = unit | (4 + number % 16) << 8 | 1 << 13
        pairs = list(zip(words[::2], words[1::2]))
        store_wave(at, to, unit, place, pairs[: last // 2 + 1])

    return wave


@ctypes.CFUNCTYPE(
    None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)
)
def launched(ctas, threads, stream, parameters):
    layout = getattr(loaded[-1].metadata, "proton_layout", "")
    if not layout:
        return
    # The last parameter, after the non-constant ones and the other scratch memory.
    arguments = [kind for kind in loaded[-1].src.signature.values() if kind != "constexpr"]
    scratch = ctypes.cast(parameters[len(arguments) + 1], ctypes.POINTER(ctypes.c_uint64))[0]
    write_waves(layout, scratch, ctas, sums_of(layout) if "\nsum " in layout else wave)


loaded = []
_init_handles = triton.compiler.CompiledKernel._init_handles


def _remember(kernel):
    if kernel.module is None:
        loaded.append(kernel)
    return _init_handles(kernel)


triton.compiler.CompiledKernel._init_handles = _remember
triton.runtime.driver.set_active(Driver())
ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"]).fake_set_kernel(launched)
