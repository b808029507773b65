"""Flops and bytes of compiled code: against loops, torch's own counter, and the tensors moved."""

import itertools
import json
import re
from types import SimpleNamespace

import pytest

from support import load, walk
from test_compiled_modules import GPT, INFER, LLAMA, SMALL, TRAIN, python, torch  # noqa: F401
from test_compiled_modules import run as run_script
from triton_proton import _compiled, _compiled_work
from triton_proton._imports import Replacements

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------ formulas


def node_of(target, *args, val=None, **kwargs):
    """As a node of a graph; tensors stand for nodes with such values."""
    return SimpleNamespace(target=target, args=args, kwargs=kwargs, meta={"val": val},
                           all_input_nodes=())


def zeros(*sizes, dtype=torch.float32):
    return torch.zeros(*sizes, dtype=dtype, device="meta")


def test_products_of_matrices_match_loops():
    m, n, k, b = 3, 5, 4, 2
    count = 2 * sum(1 for _ in itertools.product(range(m), range(n), range(k)))
    bf16 = {"dtype": torch.bfloat16}
    flops = _compiled_work.flops_of
    assert flops(node_of(aten.mm.default, zeros(m, k), zeros(k, n))) == (32, count)
    bias = zeros(n, **bf16)
    product = (zeros(m, k, **bf16), zeros(k, n, **bf16))
    assert flops(node_of(aten.addmm.default, bias, *product)) == (16, count)
    batched = (zeros(b, m, k), zeros(b, k, n))
    assert flops(node_of(aten.bmm.default, *batched)) == (32, b * count)
    assert flops(node_of(aten.baddbmm.default, zeros(b, m, n), *batched)) == (32, b * count)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_match_loops(groups, transposed):
    batch, inputs, outputs, size, taps, stride, padding = 2, 4, 6, 7, 3, 2, 1
    x = torch.zeros(batch, inputs, size, requires_grad=True)
    shape = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    weight = torch.zeros(*shape, taps)
    rest = ([stride], [padding], [1], transposed, [0], groups)
    out = aten.convolution(x, weight, None, *rest)
    # Each place of the filter, on each side of the convolution that is not summed over.
    places = x if transposed else out
    count = 0
    for _, channel, _ in itertools.product(*map(range, places.shape)):
        group = channel // (places.shape[1] // groups)
        of_group = (outputs if transposed else inputs) // groups
        for _ in itertools.product(range(group * of_group, (group + 1) * of_group), range(taps)):
            count += 2
    node = node_of(aten.convolution.default, x, weight, None, *rest, val=out)
    assert _compiled_work.flops_of(node) == (32, count)
    for mask in ([True, True, False], [False, True, True]):
        backward = node_of(aten.convolution_backward.default, out, x, weight, None, *rest, mask)
        assert _compiled_work.flops_of(backward) == (32, count * sum(mask[:2]))


ATTENTION = [
    (aten._scaled_dot_product_flash_attention, ()),
    (aten._scaled_dot_product_flash_attention_for_cpu, ()),
    (aten._scaled_dot_product_efficient_attention, (None, True)),
]


@pytest.mark.parametrize(("operator", "between"), ATTENTION)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_matches_loops(operator, between, causal):
    b, h, s, dim_q, dim_v = 2, 3, 5, 4, 6
    count = 0
    for i, j in itertools.product(range(s), range(s)):
        count += 0 if causal and j > i else 2 * b * h * (dim_q + dim_v)
    q, v = zeros(b, h, s, dim_q), zeros(b, h, s, dim_v)
    node = node_of(operator.default, q, q, v, *between, 0.0, causal)
    assert _compiled_work.flops_of(node) == (32, count)


def backward_of(operator, q, k, v, causal):
    """The node of the backward operator, with the arguments in the order of its schema."""
    target = getattr(aten, operator._qualified_op_name.partition("::")[2] + "_backward").default
    known = {"grad_out": v, "grad_out_": v, "query": q, "key": k, "value": v}
    known |= {"is_causal": causal, "grad_input_mask": [True] * 4}
    return node_of(target, *[known.get(a.name) for a in target._schema.arguments])


@pytest.mark.parametrize(("operator", "between"), ATTENTION)
def test_attention_backward_matches_loops(operator, between):
    b, h, s, dim_q, dim_v = 1, 2, 5, 4, 6
    q, v = zeros(b, h, s, dim_q), zeros(b, h, s, dim_v)
    for causal in (False, True):
        count = 0
        for i, j in itertools.product(range(s), range(s)):
            # The score again, dQ and dK over dim_q; the gradients of the score and of V.
            count += 0 if causal and j > i else 2 * b * h * (3 * dim_q + 2 * dim_v)
        assert _compiled_work.flops_of(backward_of(operator, q, q, v, causal)) == (32, count)


@pytest.mark.parametrize(
    "node",
    [
        node_of(aten.sort.default, zeros(4)),
        node_of(aten.mm.default, *[zeros(4, 4, dtype=torch.complex64)] * 2),
        node_of(ATTENTION[0][0].default, *[zeros(1, 1, 4, 8)], *[zeros(1, 1, 5, 8)] * 2, 0.0, True),
        node_of(len),
    ],
)
def test_what_is_not_known_has_no_number(node):
    with pytest.raises(_compiled_work._Unknown):
        _compiled_work.flops_of(node)


def test_another_version_of_inductor_is_named(monkeypatch, capfd):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    monkeypatch.setattr(_compiled, "_scheduling", Replacements())
    _compiled._watch_scheduler(SimpleNamespace(Scheduler=object))
    assert "codegen); kernels of compiled code have no flops and bytes" in capfd.readouterr().err
    _compiled_work.note(SimpleNamespace(nodes=[object()]))  # the compilation continues


# ------------------------------------------------------------------ programs

# What each call gets: bytes of tensors that are read and written, from the arguments at run time.
MEASURE = """
    import json, re
    from torch._inductor import async_compile, select_algorithm

    moved = []

    def bytes_of(tensor):
        sizes = [n for n, stride in zip(tensor.shape, tensor.stride()) if stride]
        return torch.Size(sizes).numel() * tensor.dtype.itemsize

    class Measured(inductor_kernels.Kernel):
        def __init__(self, name, source):
            self.name = name
            body = source.partition("def triton_")[2]
            self.parameters = re.findall(r"\\w+", body[body.index("(") + 1 : body.index(")")])

        def run(self, *arguments, **options):
            times = {"in_out": 2}
            total = sum(
                bytes_of(a) * times.get(name[:6], 1)
                for name, a in zip(self.parameters, arguments)
                if isinstance(a, torch.Tensor)
            )
            moved.append([self.name, total])
            inductor_kernels.launch(self.name)

    class MeasuredExtern(inductor_kernels.Extern):
        def __getattr__(self, name):
            run = super().__getattr__(name)

            def measured(*arguments, **options):
                result = run(*arguments, **options)
                out = options.get("out", result)
                every = {id(a): a for a in [*arguments, out] if isinstance(a, torch.Tensor)}
                moved.append([name, sum(map(bytes_of, every.values()))])
                return result

            return measured

    def in_two_kernels(name, operator):
        def run(*arguments, **options):
            inductor_kernels.launch(name)
            inductor_kernels.launch(name + "_end")
            results = operator(*arguments, **options)
            every = [*arguments, *results]
            tensors = {id(a): a for a in every if isinstance(a, torch.Tensor)}
            moved.append([name, sum(map(bytes_of, tensors.values()))])
            return results

        return run

    def launch_operators():
        attention = "_scaled_dot_product_flash_attention_for_cpu"
        for name in ("convolution_backward", attention, attention + "_backward"):
            packet = getattr(torch.ops.aten, name)
            packet.default = in_two_kernels(name, packet.default)

    async_compile.AsyncCompile.triton = (
        lambda self, name, source, device_str="cpu": Measured(name, source)
    )
    select_algorithm.extern_kernels = MeasuredExtern(select_algorithm.extern_kernels.kernels)
    """
COUNT = """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode
    launch_operators()
    moved.clear()
    record(step, "test", context="python", hook="triton")
    record(step, "plain", context="python")
    eager = Model()
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        result = eager(inputs())
        if TRAINS:
            result.sum().backward()
    flops = {str(key): value for key, value in counter.get_flop_counts().get("Global", {}).items()}
    print(json.dumps({"moved": moved[: len(moved) // 2], "flops": flops}))
    """
FIRST = """
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x):
            return self.conv(x).relu() * 2

    def inputs(length=8):
        return torch.ones(2, 3, length, length)
    """
ROWS = """
    class Model(torch.nn.Module):
        def forward(self, x):
            h = (x * 2).softmax(-1)
            return torch.nn.functional.layer_norm(h + x[:, :1], (16,)), h.sum()

    def inputs(length=8):
        return torch.rand(length, 16)
    """


def totals(name):
    """{last frame above the kernel, kernel: metrics}, and the sum of a metric over all nodes."""
    found = {}
    for path, node in walk(load(f"{name}.hatchet")):
        for metric, value in node["metrics"].items():
            if metric.startswith(("flops", "bytes")):
                found[metric] = found.get(metric, 0) + value
    return found


def run(python, tmp_path, code, use):  # noqa: F811
    count = COUNT.replace("TRAINS", str(use == TRAIN))
    done = run_script(python, tmp_path, MEASURE, code, use.replace("DYNAMIC", "False"), count)
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.mark.parametrize(
    ("code", "use"),
    [(SMALL, INFER), (SMALL, TRAIN), (GPT, TRAIN), (LLAMA, INFER), (FIRST, INFER), (FIRST, TRAIN)],
)
def test_flops_of_a_model_are_those_of_torch(code, use, python, tmp_path):  # noqa: F811
    given = run(python, tmp_path, code, use)
    flops = given["flops"]
    # The counter sees attention as products of matrices, with the pairs that a mask excludes and
    # without the scores that the backward pass computes again.
    attention = flops.pop("aten.bmm", 0)
    if code == LLAMA:
        attention = attention * 36 // 64
    elif attention:
        attention = attention * 7 // 6
    assert attention % 1024 == 0 and sum(flops.values()) > 0
    assert totals("test")["flops32"] == sum(flops.values()) + attention
    assert totals("plain") == {}  # it did not ask


@pytest.mark.parametrize(("code", "use"), [(SMALL, INFER), (SMALL, TRAIN), (FIRST, TRAIN),
                                           (ROWS, INFER)])
def test_bytes_are_those_of_the_tensors(code, use, python, tmp_path):  # noqa: F811
    given = run(python, tmp_path, code, use)
    # Inductor does not name the nodes of copies that only change the layout.
    unnamed = re.compile(r"triton_poi_fused_\d+")
    known = [count for name, count in given["moved"] if not unnamed.fullmatch(name)]
    assert totals("test")["bytes"] == sum(known) > 0


ALONE = """
    @torch.compile(dynamic=DYNAMIC)
    def product(a, b):
        return a @ b

    def step():
        for _ in range(3):
            product(torch.ones(8, 16), torch.ones(16, 4))

    step()
    launch = inductor_kernels.launch
    """
TWICE = """
    def launch_two(name):
        launch(name)
        launch(name + "_end")

    record(step, "test", context="python", hook="triton")
    inductor_kernels.launch = launch_two
    record(step, "several", context="python", hook="triton")
    """


def test_each_call_of_the_only_kernel_counts(python, tmp_path):  # noqa: F811
    run_script(python, tmp_path, ALONE.replace("DYNAMIC", "False"), TWICE)
    flops, moved = 2 * 8 * 16 * 4, 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert totals("test") == {"flops32": 3 * flops, "bytes": 3 * moved}
    assert totals("several") == totals("test")
    found = {path[-1]: node["metrics"] for path, node in walk(load("test.hatchet"))}
    assert found["mm"]["flops32"] == 3 * flops and found["mm"]["count"] == 3
    # The first call was taken for one of a single kernel.
    found = {path[-1]: node["metrics"] for path, node in walk(load("several.hatchet"))}
    assert found["mm"]["flops32"] == flops and "flops32" not in found["mm_end"]


def test_sizes_that_may_change_have_no_numbers(python, tmp_path):  # noqa: F811
    run_script(python, tmp_path, ALONE.replace("DYNAMIC", "True"), TWICE)
    assert totals("test") == {}
