"""Modules of PyTorch as scopes, and backward launches below the scopes of forward operators."""

import copy
import os
import pickle
import sys
import threading
from pathlib import Path

import pytest

import triton_proton as proton
from support import load, run_command, script, walk
from triton_proton import _libproton as lib

torch = pytest.importorskip("torch")
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint

BACKWARD = "<backward>"


def kernel(name):
    lib.kernel_begin(name)
    lib.kernel_end()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kernel("forward")
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        ctx.saved_tensors  # noqa: B018
        kernel("backward")
        return gradient


class Layer(torch.nn.Module):
    def forward(self, x):
        return Own.apply(x)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = Layer()
        self.down = Layer()

    def forward(self, x):
        return self.down(self.up(x))


class Model(torch.nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def leaf():
    return torch.ones(3, requires_grad=True)


def kernels():
    """{path of scopes with the kernel: count}"""
    return {
        path: node["metrics"]["count"]
        for path, node in walk(load("test.hatchet"))
        if path[-1] in ("forward", "backward", "hook")
    }


def train(model, **options):
    proton.start("test", backward=True, **options)
    with proton.scope("step"):
        model(leaf()).sum().backward()
    proton.finalize()
    return kernels()


def expected(*above, layers=2):
    paths = {}
    for layer in range(layers):
        for name in ("up", "down"):
            path = (*above, f"layers.{layer}", f"layers.{layer}.{name}")
            paths[(*path, "forward")] = 1
            paths[(*path, BACKWARD, "backward")] = 1
    return paths


def test_modules_are_scopes_in_forward_and_backward():
    model = proton.annotate(Model())
    assert train(model) == expected("step", "Model")


def test_the_root_can_be_named():
    model = proton.annotate(Model(), "net")
    assert train(model) == expected("step", "net")


def test_without_backward_the_backward_kernels_are_where_the_pass_is_called():
    model = proton.annotate(Model(1))
    proton.start("test")
    with proton.scope("step"):
        model(leaf()).sum().backward()
    proton.finalize()
    assert kernels()["step", "backward"] == 2


def test_scopes_of_the_program_work_without_modules():
    proton.start("test", backward=True)
    with proton.scope("a"):
        a = Own.apply(leaf())
    b = Own.apply(a)
    with proton.scope("backward pass"):
        b.sum().backward()
    proton.finalize()
    assert kernels() == {
        ("a", "forward"): 1,
        ("forward",): 1,
        ("a", BACKWARD, "backward"): 1,
        (BACKWARD, "backward"): 1,
    }


def test_scopes_entered_in_a_backward_function_are_below_it():
    class Scoped(Own):
        @staticmethod
        def backward(ctx, gradient):
            with proton.scope("inside"):
                kernel("backward")
            kernel("hook")
            return gradient

    proton.start("test", backward=True)
    with proton.scope("operator"):
        a = Scoped.apply(leaf())
    with proton.scope("pass"):
        a.sum().backward()
    proton.finalize()
    assert kernels() == {
        ("operator", "forward"): 1,
        ("operator", BACKWARD, "inside", "backward"): 1,
        ("operator", BACKWARD, "hook"): 1,
    }


def test_deannotate_removes_every_hook():
    model = proton.annotate(Model())
    proton.annotate(model)
    assert len(model._forward_pre_hooks) == 1
    proton.deannotate(model)
    for module in model.modules():
        assert not module._forward_pre_hooks and not module._forward_hooks
        assert not module._forward_hooks_always_called
    assert set(train(model)) == {("step", "forward"), ("step", BACKWARD, "backward")}


def test_a_module_that_is_used_twice_is_below_its_callers():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = Layer()
            self.two = self.one

        def forward(self, x):
            return self.two(self.one(x))

    assert train(proton.annotate(Twice())) == {
        ("step", "Twice", "one", "forward"): 2, ("step", "Twice", "one", BACKWARD, "backward"): 2
    }


def test_an_exception_in_a_module_exits_its_scopes():
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = proton.annotate(torch.nn.Sequential(Fails()))
    proton.start("test")
    with pytest.raises(ValueError):
        model(leaf())
    kernel("forward")
    proton.finalize()
    assert kernels() == {("forward",): 1}


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpoints(is_reentrant):
    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Layer()
            self.block = Mlp()

        def forward(self, x):
            return checkpoint(self.block, self.first(x), use_reentrant=is_reentrant)

    found = train(proton.annotate(Checkpointed()))
    again = {path for path in found if path[-1] == "forward" and BACKWARD in path}
    assert {path[-3:-1] for path in again} == {("block", "block.up"), ("block", "block.down")}
    backward = {path for path in found if path[-1] == "backward"}
    assert {path[-3:-1] for path in backward} == {
        ("first", BACKWARD), ("block.up", BACKWARD), ("block.down", BACKWARD)
    }


@pytest.mark.parametrize("has_scope", [False, True])
def test_the_first_operator_may_be_a_reentrant_checkpoint(has_scope):
    """It is a custom Function, and makes its node before the Functions of the block make theirs."""

    def block(x):
        if not has_scope:
            return Own.apply(x)
        with proton.scope("inner"):
            return Own.apply(x)

    def forward():
        with proton.scope("model"):
            with proton.scope("checkpoint"):
                x = checkpoint(block, leaf(), use_reentrant=True)
            results.append(Own.apply(x))

    results = []
    proton.start("test", backward=True)
    thread = threading.Thread(target=forward)  # without earlier numbers
    thread.start()
    thread.join()
    results[0].sum().backward()
    proton.finalize()
    inner = ("inner",) if has_scope else ()
    again = ("model", "checkpoint", BACKWARD, *inner)
    assert kernels() == {
        ("model", "checkpoint", *inner, "forward"): 1,
        ("model", "forward"): 1,
        ("model", BACKWARD, "backward"): 1,
        (*again, "forward"): 1,
        (*again, BACKWARD, "backward"): 1,
    }


def test_compiled_modules_appear_at_the_boundary():
    """And the hooks do not split the graph."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
            self.second = Layer()

        def forward(self, x):
            return self.second(self.first(x))

    net = Net()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)

        def run(*arguments):
            kernel("hook")
            return graph.forward(*arguments)

        return run

    net.first = torch.compile(net.first, backend=backend, fullgraph=True)
    found = train(proton.annotate(net))
    assert len(graphs) == 1
    assert found["step", "Net", "first", "hook"] == 1
    assert found["step", "Net", "second", "forward"] == 1


def test_copies_and_pickles_of_a_model():
    model = proton.annotate(Model(1))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert train(other) == expected("step", "Model", layers=1)
        proton.deannotate(other)
        assert not other._forward_hooks
    assert model._forward_hooks


def test_threads_call_one_model():
    model = proton.annotate(Model(1))
    proton.start("test", backward=True)
    threads = [threading.Thread(target=lambda: model(leaf()).sum().backward()) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proton.finalize()
    assert kernels() == {path: 4 for path in expected("Model", layers=1)}


def test_only_modules_can_be_annotated():
    with pytest.raises(TypeError, match="annotate takes a torch.nn.Module, not list"):
        proton.annotate([])


# ---------------------------------------------------------------------- the command

PROGRAM = """
import torch
from triton_proton import _libproton as lib

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        lib.kernel_begin("forward"); lib.kernel_end()
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        lib.kernel_begin("backward"); lib.kernel_end()
        return gradient

class Layer(torch.nn.Module):
    def forward(self, x):
        return Own.apply(x)

model = torch.nn.Sequential(Layer(), torch.nn.Sequential(Layer()))
for _ in range(3):
    model(torch.ones(3, requires_grad=True)).sum().backward()
"""


def command(*options):
    Path("program.py").write_text(PROGRAM, encoding="utf-8")
    return run_command(
        [sys.executable, "-m", "triton_proton", *options, "-n", "test", "program.py"],
        env={**os.environ, "PROTON_BACKEND": "host"}, status=None,
    )


def test_the_command_annotates_each_model():
    assert command("--modules").returncode == 0
    assert kernels() == {
        ("Sequential", "0", "forward"): 3,
        ("Sequential", "1", "1.0", "forward"): 3,
        ("Sequential", "0", BACKWARD, "backward"): 3,
        ("Sequential", "1", "1.0", BACKWARD, "backward"): 3,
    }


def test_modules_need_scopes():
    result = command("--modules", "-c", "python")
    assert result.returncode == 2
    assert "--modules needs a context with scopes; use -c python+scopes" in result.stderr
    result = run_command(
        [sys.executable, "-m", "triton_proton", "--modules", "--", "true"], status=None
    )
    assert result.returncode == 2
    assert "--modules works only with Python scripts and modules" in result.stderr
