"""Names in jobs of two processes: DistributedDataParallel, fully_shard and FSDP with gloo."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from support import load, walk
from warm_python import WarmPython

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
pytest.importorskip("torch.distributed.fsdp")
if not distributed.is_available() or not distributed.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

BACKWARD = "<backward>"
KERNELS = ("forward", "backward")

IMPORTS = """
import os, sys
import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch.utils.checkpoint import checkpoint
"""
PROGRAM = '''
child = os.fork()
rank = 0 if child else 1
os.environ["RANK"] = str(rank)
import triton_proton as proton
from triton_proton import _libproton as lib

kind = os.environ["KIND"]
way = None

def kernel(name):
    lib.kernel_begin(name)
    lib.kernel_end()

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kernel("forward")
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        kernel("backward")
        return gradient

class Layer(torch.nn.Linear):
    def forward(self, x):
        return Own.apply(super().forward(x))  # line layer

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = Layer(8, 16), Layer(16, 8)

    def forward(self, x):
        x = torch.relu(self.up(x))  # line up
        return self.down(x)  # line down

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(2))
        self.reused = Layer(8, 8)

    def forward(self, x):
        for layer in self.layers:
            if way is None:
                x = layer(x)  # line block
            else:
                x = checkpoint(layer, x, use_reentrant=way)  # line block
            x = self.reused(x)  # line reused
        return x

def wrap(model):
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if kind == "fully_shard":
        from torch.distributed.fsdp import fully_shard
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    return FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu")
    )

dist.init_process_group("gloo", store=dist.FileStore("store", 2), rank=rank, world_size=2)
torch.manual_seed(0)
model = wrap(Model())

# A leaf's hook: it runs beside those that reduce the gradients.
for name, parameter in model.named_parameters():
    if kind != "fsdp" and name.endswith("layers.1.down.weight"):
        parameter.register_post_accumulate_grad_hook(lambda leaf: kernel("hook"))

def step():
    x = torch.ones(4, 8, requires_grad=True)
    model(x).sum().backward()

step()
for way, name in ((None, "plain"), (True, "reentrant"), (False, "saved")):
    for context in ("python", "shadow"):
        if context == "shadow":
            proton.annotate(model)
        proton.start(f"{context}_{name}_{rank}", context=context, backward=context == "shadow")
        step()
        proton.finalize()
        proton.deannotate(model)
dist.destroy_process_group()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
'''


@pytest.fixture(scope="module")
def python():
    """Both processes of each job are its forks: the imports take longer than the jobs."""
    with WarmPython(IMPORTS, OMP_NUM_THREADS="1") as warm:
        yield warm


@pytest.fixture(scope="module", params=["ddp", "fully_shard", "fsdp"])
def job(request, python, tmp_path_factory):
    """The directory with the profiles of both processes."""
    if request.param == "fully_shard" and not hasattr(torch.distributed.fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    place = tmp_path_factory.mktemp(request.param)
    variables = dict(KIND=request.param, WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo")
    variables |= dict(PROTON_BACKEND="host", PROTON_QUIET="1", PROTON_RANKS="off")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in [name for name in os.environ if name.startswith("PROTON_")]:
            patch.delenv(name)
        python.script(PROGRAM, variables)
    return place


def kernels(path):
    """{path of a kernel: count}"""
    found = Counter()
    for names, node in walk(load(path)):
        if names[-1] in (*KERNELS, "hook"):
            found[names] += node["metrics"]["count"]
    return found


def expected_modules(way):
    """Scopes of each kernel of a step; the repetition of a checkpoint is below <backward>."""
    paths = Counter()
    for layer in ("layers.0", "layers.1"):
        for leaf in (f"{layer}.up", f"{layer}.down"):
            paths["Model", layer, leaf, "forward"] += 1
            if way == "reentrant":
                again = ("Model", BACKWARD, layer, leaf)
                paths[(*again, "forward")] += 1
                paths[(*again, BACKWARD, "backward")] += 1
            else:
                paths["Model", layer, leaf, BACKWARD, "backward"] += 1
            # The first saved tensor that is needed is made by repeating the block up to it.
            if way == "saved" and leaf.endswith("up"):
                paths["Model", layer, f"{layer}.down", BACKWARD, layer, leaf, "forward"] += 1
        paths["Model", "reused", "forward"] += 1
        paths["Model", "reused", BACKWARD, "backward"] += 1
    return paths


@pytest.mark.parametrize("way", ["plain", "reentrant", "saved"])
def test_backward_kernels_are_below_their_modules(job, way):
    for rank in range(2):
        found = kernels(job / f"shadow_{way}_{rank}.hatchet")
        found = Counter({path: count for path, count in found.items() if path[-1] != "hook"})
        assert found == expected_modules(way)


@pytest.mark.parametrize("way", ["plain", "reentrant", "saved"])
def test_backward_kernels_are_below_the_lines_of_their_forward_operators(job, way):
    lines = PROGRAM.split("\n")
    found = Counter()
    for path, count in kernels(job / f"python_{way}_0.hatchet").items():
        marks = []
        for name in path:
            number = re.fullmatch(r".*script\.py:(\d+)@.*", name)
            mark = lines[int(number[1]) - 1].partition("# line ")[2] if number else name
            if mark in ("B", BACKWARD, *KERNELS) or number and mark:
                marks.append("B" if mark == BACKWARD else mark)
        found[tuple(marks)] += count
    backward = {path for path in found if path[-1] == "backward"}
    # FSDP makes nodes between the checkpoint's and the first launch.
    again = ("block", "B") if way == "reentrant" else ("block",)
    assert backward == {
        (*again, "up", "layer", "B", "backward"),
        (*again, "down", "layer", "B", "backward"),
        ("reused", "layer", "B", "backward"),
    }
    assert sum(found[path] for path in backward) == 6


def test_hooks_of_leaves_are_below_the_operator_that_sends_the_gradient(job):
    found = kernels(job / "shadow_plain_0.hatchet")
    hooks = {path for path in found if path[-1] == "hook"}
    if job.name.startswith("ddp"):
        assert hooks == {("Model", "layers.1", "layers.1.down", BACKWARD, "hook")}
    elif job.name.startswith("fully_shard"):  # after the reduction of the block's gradients
        assert hooks == {("Model", "layers.1", BACKWARD, "hook")}
    else:
        assert not hooks
