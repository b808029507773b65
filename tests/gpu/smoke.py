"""Kernels on an NVIDIA GPU through the C library by ctypes-free Python API: counts and times."""
import json
import os
import sys
import time

import torch
import triton
import triton.language as tl

import triton_proton as proton


def meta(grid, metadata, args):
    return {"name": f"add_{args['n']}", "flops32": float(args["n"]), "bytes": 12 * args["n"]}


@triton.jit(launch_metadata=meta)
def add(x, y, z, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    tl.store(z + o, tl.load(x + o, m) + tl.load(y + o, m), m)


def main(out):
    n = 1 << 24
    x = torch.randn(n, device="cuda")
    y = torch.randn(n, device="cuda")
    z = torch.empty_like(x)
    run = lambda: add[(n // 1024,)](x, y, z, n, B=1024)
    run()
    torch.cuda.synchronize()
    s = proton.start(out + "/smoke", hook="triton")
    print("backend", proton._libproton.session_backend(s) if hasattr(proton, "_libproton") else "?")
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with proton.scope("outer"):
        a.record()
        for _ in range(100):
            run()
        b.record()
        with proton.scope("torch"):
            for _ in range(10):
                torch.mm(x[: 1 << 20].view(1024, 1024), y[: 1 << 20].view(1024, 1024))
    torch.cuda.synchronize()
    print("events ms", a.elapsed_time(b))
    w = torch.randn(256, 256, device="cuda", requires_grad=True)
    with proton.scope("step"):
        loss = (w @ w).relu().sum()
        with proton.scope("backward"):
            loss.backward()
    proton.finalize(s)
    d = json.load(open(out + "/smoke.hatchet"))
    print(json.dumps(d[1]))

    def show(node, depth=0):
        print("  " * depth + node["frame"]["name"][:70], node["metrics"])
        for c in node["children"]:
            show(c, depth + 1)

    show(d[0])


main(sys.argv[1])
