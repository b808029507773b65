"""Kernels of PyTorch without a GPU: each operator that computes something is a launch."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode

from triton_proton import _libproton as lib


class Launches(TorchDispatchMode):
    """Is called below autograd, where a GPU's operators launch."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        is_kernel = not function.is_view and name not in ("detach", "empty", "empty_like")
        if is_kernel:
            self.counts[name] += 1
            lib.kernel_begin(name)
        try:
            return function(*args, **(kwargs or {}))
        finally:
            if is_kernel:
                lib.kernel_end()
