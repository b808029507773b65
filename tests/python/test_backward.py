"""Backward launches below the forward operators that made their nodes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import triton_proton as proton
from support import load, script, walk
from triton_proton import _libproton as lib

torch = pytest.importorskip("torch")
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

HERE = __file__
BACKWARD = "<backward>"


class Launches(TorchDispatchMode):
    """Below autograd, as on a GPU: each operator that computes something launches a kernel."""

    VIEWS = ("view", "expand", "slice", "t", "transpose", "detach", "unsqueeze", "alias", "select")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in self.VIEWS:
            return function(*args, **(kwargs or {}))
        lib.kernel_begin(name)
        try:
            return function(*args, **(kwargs or {}))
        finally:
            lib.kernel_end()


def kernel(name):
    lib.kernel_begin(name)
    lib.kernel_end()


class Own(torch.autograd.Function):
    """A custom Function that launches kernels."""

    @staticmethod
    def forward(ctx, x):
        kernel("own_forward_1")  # line own forward 1
        kernel("own_forward_2")  # line own forward 2
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        kernel("own_backward")  # line own backward
        return 2 * x * gradient  # line own backward result


def lines(path):
    """The comments `line ...` of a path; other frames are omitted."""
    marks = {}
    for number, line in enumerate(Path(HERE).read_text(encoding="utf-8").split("\n"), 1):
        if "# line " in line:
            marks[f"{HERE}:{number}"] = line.rpartition("# line ")[2]
    found = []
    for name in path:
        mark = marks.get(name.rpartition("@")[0])
        if name == BACKWARD or mark:
            found.append("B" if name == BACKWARD else mark)
    return tuple(found)


@pytest.fixture(autouse=True, params=["own frames", "public interface"])
def way(request):
    own = request.param == "own frames"
    if lib.use_own_frames(own) != own:
        pytest.skip("the frames of this Python are not known")
    yield request.param
    lib.use_own_frames(True)


def record(function):
    """Kernels of a run of `function`: {(name, lines): count}."""
    proton.start("test", context="python")
    function()
    proton.finalize()
    found = {}
    for path, node in walk(load("test.hatchet")):
        if "count" in node["metrics"]:
            key = (path[-1], lines(path))
            found[key] = found.get(key, 0) + node["metrics"]["count"]
    return found


def backward_lines(found):
    return {key: count for key, count in found.items() if "B" in key[1]}


# ---------------------------------------------------------------------- one graph


def test_native_operators():
    weight = torch.ones(4, 4, requires_grad=True)
    x = torch.ones(2, 4)

    def model(x):
        h = torch.nn.functional.linear(x, weight)  # line linear
        h = torch.nn.functional.gelu(h)  # line gelu
        return h.square().mean()  # line loss

    def step():
        with Launches():
            model(x).backward()  # line step

    found = record(step)
    assert {key: count for key, count in found.items() if key[0] == "gelu_backward"} == {
        ("gelu_backward", ("step", "gelu", "B")): 1
    }
    assert found["mm", ("step", "linear", "B")] == 1
    # The gradient of the loss is made by the caller of backward(), before there is a node.
    stray = {key for key in found if "B" not in key[1] and key[1] != ("step",)}
    assert all(key[1][-1] in ("linear", "gelu", "loss") for key in stray)
    assert all(len(key[1]) == 3 for key in backward_lines(found)), found
    assert {key[1][1] for key in backward_lines(found)} == {"linear", "gelu", "loss"}


def test_a_custom_function_is_below_the_line_that_applies_it():
    x = torch.ones(3, requires_grad=True)

    def model():
        a = Own.apply(x)  # line apply 1
        b = Own.apply(a)  # line apply 2
        return b.sum()

    def step():
        model().backward()  # line custom step

    found = record(step)
    assert found == {
        ("own_forward_1", ("custom step", "apply 1", "own forward 1")): 1,
        ("own_forward_2", ("custom step", "apply 1", "own forward 2")): 1,
        ("own_forward_1", ("custom step", "apply 2", "own forward 1")): 1,
        ("own_forward_2", ("custom step", "apply 2", "own forward 2")): 1,
        ("own_backward", ("custom step", "apply 1", "B", "own backward")): 1,
        ("own_backward", ("custom step", "apply 2", "B", "own backward")): 1,
    }


class WithSetup(torch.autograd.Function):
    """The context object is not an argument of its forward function."""

    @staticmethod
    def forward(x):
        kernel("forward")
        return x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        kernel("backward")
        return gradient


class WithDecorators(torch.autograd.Function):
    """The context object is in a tuple."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        kernel("forward")
        return x * 1

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        kernel("backward")
        return gradient


@pytest.mark.parametrize("function", [WithSetup, WithDecorators])
def test_other_forms_of_a_custom_function(function):
    def step():
        x = torch.ones(3, requires_grad=True)
        a = function.apply(x)  # line first form
        b = function.apply(a)  # line second form
        c = checkpoint(function.apply, b, use_reentrant=True)  # line repeated form
        c.sum().backward()

    assert record(step) == {
        ("forward", ("first form",)): 1,
        ("forward", ("second form",)): 1,
        ("forward", ("repeated form",)): 1,
        ("forward", ("repeated form", "B")): 1,
        ("backward", ("repeated form", "B", "B")): 1,
        ("backward", ("second form", "B")): 1,
        ("backward", ("first form", "B")): 1,
    }


def test_several_backward_passes_of_one_graph():
    x = torch.ones(3, requires_grad=True)

    def step():
        loss = Own.apply(x).sum()  # line several
        loss.backward(retain_graph=True)
        loss.backward()

    found = record(step)
    assert found["own_backward", ("several", "B", "own backward")] == 2


def test_passes_of_a_graph_in_which_one_node_launches():
    """The node is the same in each pass; the accumulations belong to it as long as they launch."""
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.ones(3)
    gradient = torch.ones(3)

    def step():
        y = Own.apply(x)  # line same node
        with Launches():
            for _ in range(4):
                y.backward(gradient, retain_graph=True)

    found = record(step)
    assert found["own_backward", ("same node", "B", "own backward")] == 4
    assert found["add_", ("same node", "B")] == 4


def test_an_accumulation_in_another_pass_is_not_below_the_last_node():
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    y.grad = torch.ones(3)
    gradient = torch.ones(3)

    def step():
        a, b = Own.apply(x), y.view(3)  # line two graphs
        with Launches():
            for _ in range(2):
                a.backward(gradient, retain_graph=True)
            b.backward(gradient)  # line view only

    found = record(step)
    assert found["own_backward", ("two graphs", "B", "own backward")] == 2
    assert found["add_", ("view only",)] == 1


def test_nodes_at_the_address_of_a_freed_one():
    x = torch.ones(3, requires_grad=True)
    gradient = torch.ones(3)

    def step():
        for _ in range(10):
            Own.apply(x).backward(gradient)  # line freed 1
            Own.apply(x).backward(gradient)  # line freed 2

    found = record(step)
    for line in ("freed 1", "freed 2"):
        assert found["own_backward", (line, "B", "own backward")] == 10


def test_double_backward():
    x = torch.ones(3, requires_grad=True)

    def step():
        with Launches():
            loss = Own.apply(x).sum()  # line first order
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
            gradient.sum().backward()  # line second pass

    found = record(step)
    assert ("own_backward", ("first order", "B", "own backward")) in found
    second = {key: count for key, count in found.items() if key[1].count("B") == 2}
    assert second == {("mul", ("first order", "B", "own backward result", "B")): 2}


def test_the_backward_pass_on_another_thread_has_the_forward_threads_lines():
    x = torch.ones(3, requires_grad=True)

    def step():
        loss = Own.apply(x).sum()  # line forward thread
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()

    found = record(step)
    assert found["own_backward", ("forward thread", "B", "own backward")] == 1


def test_forward_threads_with_the_same_numbers_are_distinguished():
    results = {}
    gate = threading.Barrier(2)

    def first():
        x = torch.ones(3, requires_grad=True)
        gate.wait(timeout=300)
        results[1] = Own.apply(x)  # line thread 1

    def second():
        x = torch.ones(3, requires_grad=True)
        gate.wait(timeout=300)
        results[2] = Own.apply(x)  # line thread 2

    def step():
        threads = [threading.Thread(target=target) for target in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results[1].grad_fn._sequence_nr() == results[2].grad_fn._sequence_nr()
        results[1].sum().backward()
        for _ in range(2):
            results[2].sum().backward(retain_graph=True)

    found = record(step)
    assert found["own_backward", ("thread 1", "B", "own backward")] == 1
    assert found["own_backward", ("thread 2", "B", "own backward")] == 2


def test_many_forward_threads_that_end():
    """More than there are rings: those of ended threads are reused."""

    def step():
        for _ in range(200):
            results = []
            x = torch.ones(3, requires_grad=True)
            thread = threading.Thread(
                target=lambda: results.append(Own.apply(x))  # line short thread
            )
            thread.start()
            thread.join()
            results[0].sum().backward()

    found = record(step)
    assert found["own_backward", ("short thread", "B", "own backward")] == 200


# ---------------------------------------------------------------------- hooks, views, leaves


def test_hooks_are_below_the_operator_of_their_tensor():
    x = torch.ones(3, requires_grad=True)

    def step():
        a = Own.apply(x)  # line hooked
        a.register_hook(lambda gradient: kernel("hook"))  # line hook
        b = Own.apply(a)  # line not hooked
        b.sum().backward()

    found = record(step)
    assert found["hook", ("hooked", "B", "hook")] == 1


def test_accumulation_is_below_the_operator_of_the_gradient_that_arrives():
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.ones(3)
    x.register_post_accumulate_grad_hook(lambda leaf: kernel("after"))  # line after

    def step():
        a = Own.apply(x)  # line uses the leaf
        b = Own.apply(a)  # line uses the result
        with Launches():
            b.sum().backward()

    found = record(step)
    assert found["add_", ("uses the leaf", "B")] == 1
    assert found["after", ("uses the leaf", "B", "after")] == 1


def test_a_view_is_where_its_neighbors_are():
    x = torch.ones(2, 4, requires_grad=True)

    def model():
        a = x.square()  # line before the view
        b = a[0]  # a view
        return (b + 1).sum()  # line after the view

    def step():
        with Launches():
            loss = model()  # line view
            loss.backward()

    found = record(step)
    assert found["select_backward", ("view", "B")] == 1


def test_launches_without_gradients_do_not_take_the_place_of_an_operator():
    x = torch.ones(2, 4, requires_grad=True)

    def step():
        with Launches():
            a = x.square()  # line has a gradient
            b = a[0]
            with torch.no_grad():
                x.cos()  # line has none
            b.sum().backward()  # line sums

    found = record(step)
    assert not any("has none" in key[1] for key in backward_lines(found)), found


# ---------------------------------------------------------------------- checkpoints, compilation


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_checkpoint_in_which_nodes_are_made_before_the_first_launch(way, is_nested):
    """As hooks of FSDP do."""
    weight = torch.ones(3, requires_grad=True)

    def hook():
        with torch.enable_grad():
            return [weight.expand_as(weight) for _ in range(3)]

    def block(x):
        hook()
        kernel("in block")  # line in block
        return x * 1

    def outer(x):
        hook()
        return checkpoint(block, x, use_reentrant=True)  # line inner checkpoint

    def model(x):
        x = Own.apply(x)  # line before
        x = x[:2]  # a view
        x = checkpoint(outer if is_nested else block, x, use_reentrant=True)  # line hooked block
        return Own.apply(x)  # line after it

    def step():
        x = torch.ones(3, requires_grad=True)
        model(x).sum().backward()

    found = record(step)
    paths = {path for name, path in found if name == "in block" and "B" in path}
    again = ("hooked block", "B", "inner checkpoint", "B") if is_nested else ("hooked block", "B")
    if way == "public interface":  # the Function's node is not found then
        assert not any("hooked block" in path for path in paths)
    else:
        assert (*again, "in block") in paths and all(path[:2] == again[:2] for path in paths)


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpoints(is_reentrant):
    results = []

    def block(x):
        return Own.apply(x)  # line in the block

    def forward():
        x = torch.ones(3, requires_grad=True)
        results.append(checkpoint(block, x, use_reentrant=is_reentrant))  # line checkpoint

    def step():
        thread = threading.Thread(target=forward)  # without earlier numbers
        thread.start()
        thread.join()
        results[0].sum().backward()  # line checkpointed backward

    found = record(step)
    again = [key for key in found if key[0] == "own_forward_1" and "B" in key[1]]
    assert again, found
    for _, path in again:
        assert path[0] == "checkpoint" and path[-2:] == ("in the block", "own forward 1")
    (backward,) = (key for key in found if key[0] == "own_backward")
    expected = ("checkpoint", "in the block", "B", "own backward")
    if is_reentrant:
        expected = ("checkpoint", "B", *expected[1:])
    assert backward[1] == expected


def test_compiled_functions_are_below_the_line_of_their_call():
    x = torch.ones(2, 4, requires_grad=True)
    weight = torch.ones(4, 4, requires_grad=True)

    @torch.compile(backend="aot_eager")
    def compiled(x):
        return torch.nn.functional.gelu(x @ weight)

    compiled(x).sum().backward()

    def step():
        with Launches():
            y = compiled(x)  # line compiled call
            y.sum().backward()  # line compiled backward

    found = record(step)
    assert {key[1] for key in found if key[0] == "gelu_backward"} == {("compiled call", "B")}


# ---------------------------------------------------------------------- what is not known


def test_operators_from_before_the_session_are_counted_and_attributed_to_the_call():
    x = torch.ones(3, requires_grad=True)
    loss = Own.apply(x).sum()

    session = proton.start("test", context="python")
    loss.backward()  # line late step
    counts = {name: value for name, value, is_loss in lib.statistics(session)}
    proton.finalize()
    root = load("test.hatchet")
    paths = [lines(path) for path, _ in walk(root) if path[-1] == "own_backward"]
    assert paths == [("late step", "own backward")]
    assert counts["backward launches without a known forward operator"] == 1


def test_each_launch_of_a_node_without_an_origin_is_counted():
    x = torch.ones(3, requires_grad=True)
    y = x.square()
    y.register_hook(lambda gradient: [kernel("unknown") for _ in range(3)] and None)
    session = proton.start("test", context="python")
    y.sum().backward()
    kernel("later")  # line later
    counts = {name: value for name, value, is_loss in lib.statistics(session)}
    proton.finalize()
    assert counts["backward launches without a known forward operator"] == 3
    (later,) = (path for path, _ in walk(load("test.hatchet")) if path[-1] == "later")
    assert lines(later) == ("later",)


def test_what_fell_out_of_the_ring_is_attributed_to_the_call():
    x = torch.ones(3, requires_grad=True)

    def step():
        loss = Own.apply(x).sum()  # line old
        y = x.detach().requires_grad_()
        for _ in range(1 << 15):
            y = y + 1
        Own.apply(y.detach().requires_grad_())
        loss.backward()  # line old step

    step()
    found = record(step)
    (backward,) = (key for key in found if key[0] == "own_backward")
    assert backward[1] in (("old", "B", "own backward"), ("old step", "own backward"))


def test_context_shadow_is_as_before():
    x = torch.ones(3, requires_grad=True)
    proton.start("test")
    with proton.scope("forward"):
        loss = Own.apply(x).sum()
    with proton.scope("backward"):
        loss.backward()
    proton.finalize()
    paths = {path for path, _ in walk(load("test.hatchet"))}
    assert ("backward", "own_backward") in paths


def test_a_process_that_forks_after_the_start_can_run_backward():
    """Learning what nodes look like must not start the engine, which breaks forked children."""
    result = script(
        """
        import os
        import torch
        import triton_proton as proton
        proton.start("test", context="python")
        child = os.fork()
        if child == 0:
            x = torch.ones(3, requires_grad=True)
            x.square().sum().backward()
            os._exit(0 if x.grad is not None else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert result.stdout == "0\n"


def test_another_pytorch_is_reported_once_and_recorded_as_before():
    Path("torch.py").write_text("__version__ = '9.9'", encoding="utf-8")
    result = script(
        """
        import triton_proton as proton
        proton.start("test", context="python")
        import torch
        proton.finalize()
        proton.start("test", context="python")
        proton.finalize()
        """
    )
    assert result.stderr.count("PyTorch 9.9 is not supported") == 1


def test_it_can_be_switched_off_and_on_while_a_session_records():
    """As bench/names.py does."""
    x = torch.ones(3, requires_grad=True)

    def steps():
        for is_on in (True, False, True):
            assert lib.use_autograd(is_on) == is_on
            loss = Own.apply(x).sum()  # line switched
            loss.backward()  # line switched step

    found = record(steps)
    assert found["own_backward", ("switched", "B", "own backward")] == 2
    assert found["own_backward", ("switched step", "own backward")] == 1


def test_it_can_be_switched_off():
    result = script(
        """
        import torch
        import triton_proton as proton
        from triton_proton import _libproton as lib
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * 1
            @staticmethod
            def backward(ctx, g):
                lib.kernel_begin("k"); lib.kernel_end()
                return g
        proton.start("test", context="python")
        F.apply(torch.ones(1, requires_grad=True)).sum().backward()
        proton.finalize()
        """,
        env={"PROTON_BACKWARD": "0"},
    )
    assert result.returncode == 0
    assert not any("<backward>" in path for path, _ in walk(load("test.hatchet")))


# ---------------------------------------------------------------------- Triton's interpreter

TRITON = '''
import torch, triton, triton.language as tl

@triton.jit
def scale(x, y, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)

def launch(x, s):
    y = torch.empty_like(x)
    scale[(1,)](x, y, x.numel(), s, B=16)  # L launch
    return y

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return launch(x, s)  # L forward

    @staticmethod
    def backward(ctx, g):
        return launch(g, ctx.s), None  # L backward

class Layer(torch.nn.Module):
    def forward(self, x):
        x = Scale.apply(x, 2.0)  # L first
        return torch.relu(Scale.apply(x, 3.0))  # L second

model = torch.nn.Sequential(Layer(), Layer())
x = torch.ones(8, requires_grad=True)
for _ in range(3):
    loss = model(x).sum()  # L model
    loss.backward()  # L step
'''


def test_interpreted_triton_kernels_in_custom_functions():
    Path("train.py").write_text(TRITON, encoding="utf-8")
    marks = {
        f"{number}": line.rpartition("# L ")[2]
        for number, line in enumerate(TRITON.split("\n"), 1)
        if "# L " in line
    }
    subprocess.run(
        [sys.executable, "-m", "triton_proton", "-q", "-c", "python", "-n", "t", "train.py"],
        check=True, env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=300,
    )
    found = {}
    for path, node in walk(load("t.hatchet")):
        if path[-1] != "scale":
            continue
        marked = []
        for name in path:
            place = name.rpartition("@")[0]
            if name == BACKWARD or "train.py:" in place:
                marked.append("B" if name == BACKWARD else marks[place.rpartition(":")[2]])
        found[tuple(marked)] = found.get(tuple(marked), 0) + node["metrics"]["count"]
    assert found == {
        ("model", "first", "forward", "launch"): 6,
        ("model", "second", "forward", "launch"): 6,
        ("model", "first", "B", "backward", "launch"): 6,
        ("model", "second", "B", "backward", "launch"): 6,
    }
