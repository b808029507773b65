"""Inductor generates code with Triton kernels and extern calls for the CPU, and each call of one is
a kernel of the host backend. No kernel runs: results are whatever the memory contained.

Import it before the first compilation. Above each call, another comment tells the modules of
the nodes that the kernel computes, read from their metadata without the help of the package.
"""

import json
import os
import sys
import tempfile

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch._inductor.codegen.triton as triton_code
import torch._inductor.ir as ir
import torch._inductor.utils as utils
import torch.utils._triton as torch_triton
from torch._inductor import async_compile, config, select_algorithm

MARK = "# Modules: "

config.cpu_backend = "triton"
torch_triton.triton_hash_with_backend = lambda: "none"


def launch(name):
    from triton_proton import _libproton as lib  # after a fork of WarmPython

    lib.kernel_begin(name)
    lib.kernel_end()


class Kernel:
    def __init__(self, name):
        self.name = name

    def run(self, *arguments, **options):
        launch(self.name)


class Extern:
    """extern_kernels.addmm and others."""

    def __init__(self, kernels):
        self.kernels = kernels

    def __getattr__(self, name):
        kernel = getattr(self.kernels, name)

        def run(*arguments, **options):
            launch(name)
            return kernel(*arguments, **options)

        return run


async_compile.AsyncCompile.triton = lambda self, name, source, device_str="cpu": Kernel(name)
select_algorithm.extern_kernels = Extern(select_algorithm.extern_kernels)


def name_of(stack):
    """The innermost module as the program names it."""
    path, _ = list(stack.values())[-1]
    for part in ("._modules['", "']", "L['", "_orig_mod.", "_checkpoint_wrapped_module."):
        path = path.replace(part, "." if part.startswith("._") else "")
    return path.partition(".")[2]


def modules_of(schedule):
    """Names, "" for operators of the model itself; None for a sum of gradients, which has none."""
    found = set()
    nodes = utils.aggregate_origins(schedule)
    if isinstance(schedule, ir.ExternKernel) and schedule.origin_node is not None:
        nodes = [schedule.origin_node]  # the others are views of its inputs
    for node in nodes:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        trace = node.meta.get("stack_trace") or ""
        if node.op == "call_function" and stack:
            found.add(name_of(stack))
        elif node.op == "call_function":
            found.add(None if not trace or "Gradient addition" in trace else "")
    return sorted(found, key=str)


metadata = utils.get_kernel_metadata


def get_kernel_metadata(schedule, wrapper):
    comment, detail = metadata(schedule, wrapper)
    return f"{MARK}{json.dumps(modules_of(schedule))}\n{comment}", detail


for module in (triton_code, ir):
    module.get_kernel_metadata = get_kernel_metadata


def hits():
    """Hits and misses of the cache of compiled graphs."""
    counters = sys.modules["torch._dynamo.utils"].counters["inductor"]
    return {name: counters[f"fxgraph_cache_{name}"] for name in ("hit", "miss", "bypass")}


def use_caches(wanted):
    config.fx_graph_cache = wanted
    torch._functorch.config.enable_autograd_cache = wanted


class Warming(torch.nn.Module):
    """A model that no test has: code that was generated for it is not used again."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 5)

    def forward(self, x):
        return self.linear(x).sin().softmax(-1)


def warm_up():
    """
    Compile once, which loads modules and fills tables for later compilations of forks. The module
    that the package changes is imported again.
    """
    global launch
    own, launch = launch, lambda name: None
    with tempfile.TemporaryDirectory() as place:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = place
        model = torch.compile(Warming(), dynamic=False)
        model(torch.ones(4, 3)).sum().backward()
        with torch.no_grad():
            model(torch.ones(4, 3))
    launch = own
    torch._dynamo.reset()
    sys.modules["torch._dynamo.utils"].counters.clear()
    del sys.modules["torch._inductor.compile_fx"], torch._inductor.compile_fx
