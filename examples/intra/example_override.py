"""TTGIR override: a kernel without scope calls in its source, measured by editing its TTGIR.

    python -m triton_proton.intra dump ttgir_dump example_override.py
    python -m triton_proton.intra insert ttgir_dump --scope kernel --scope "load=tt.load"
    python -m triton_proton.intra run ttgir_dump example_override.py
"""

from __future__ import annotations

import common
import triton
import triton.language as tl

import triton_proton as proton


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask)
    tl.store(out + at, total, mask=mask)


def main() -> None:
    import torch

    options = common.parse_options(__doc__)
    x = torch.rand(98432, device="cuda")
    y = torch.rand(98432, device="cuda")
    out = torch.empty_like(x)
    common.start("vector-add", options)
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    proton.finalize()
    assert torch.equal(out, x + y)


if __name__ == "__main__":
    main()
