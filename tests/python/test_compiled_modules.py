"""Modules and lines of kernels of torch.compile, compared with the metadata of the graphs."""

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support import load, run_command, walk
from warm_python import WarmPython

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("torch._inductor")
if not shutil.which("c++") and not shutil.which("g++"):
    pytest.skip("Inductor needs a C++ compiler", allow_module_level=True)

HERE = Path(__file__).parent
MARK = "# Modules: "

# Most of the work of a script; the package and the module that it changes come after the fork.
IMPORTS = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import inductor_kernels
inductor_kernels.warm_up()
"""

START = """
    import sys
    assert not {"triton_proton", "torch._inductor.compile_fx"} & set(sys.modules)
    import inductor_kernels
    import torch
    import triton_proton as proton
    from torch.nn import functional as F

    def record(step, name="test", **options):
        proton.start(name, backend="host", **options)
        step()
        proton.finalize()

    class MLP(torch.nn.Module):
        def __init__(self, size=16):
            super().__init__()
            self.up = torch.nn.Linear(size, 2 * size)
            self.down = torch.nn.Linear(2 * size, size)

        def forward(self, x):
            h = F.gelu(self.up(x))
            return self.down(h)
    """

# Like GPT-2: layer norms, biases, one projection to queries, keys and values.
GPT = """
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(16, 48)
            self.out = torch.nn.Linear(16, 16)

        def forward(self, x):
            q, k, v = (t.view(*x.shape[:2], 2, 8).transpose(1, 2)
                       for t in self.qkv(x).chunk(3, dim=-1))
            weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, dim=-1)
            return self.out((weights @ v).transpose(1, 2).reshape(x.shape))

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = torch.nn.LayerNorm(16)
            self.attention = Attention()
            self.norm2 = torch.nn.LayerNorm(16)
            self.mlp = MLP()

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(32, 16)
            self.layers = torch.nn.ModuleList(Block() for _ in range(2))
            self.norm = torch.nn.LayerNorm(16)
            self.head = torch.nn.Linear(16, 32, bias=False)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x)) * 2

    def inputs(length=8):
        return torch.zeros(2, length, dtype=torch.int64)
    """

# Like Llama: RMS norms, rotary embeddings, gated MLP, tied head.
LLAMA = """
    class RMSNorm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(16))

        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def rotate(x, angles):
        half = torch.cat((-x[..., 4:], x[..., :4]), dim=-1)
        return x * angles.cos() + half * angles.sin()

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                setattr(self, name, torch.nn.Linear(16, 16, bias=False))

        def forward(self, x, angles):
            split = lambda t: t.view(*x.shape[:2], 2, 8).transpose(1, 2)
            q = rotate(split(self.q_proj(x)), angles)
            k = rotate(split(self.k_proj(x)), angles)
            y = F.scaled_dot_product_attention(q, k, split(self.v_proj(x)), is_causal=True)
            return self.o_proj(y.transpose(1, 2).reshape(x.shape))

    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj = torch.nn.Linear(16, 40, bias=False)
            self.up_proj = torch.nn.Linear(16, 40, bias=False)
            self.down_proj = torch.nn.Linear(40, 16, bias=False)

        def forward(self, x):
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.input_norm = RMSNorm()
            self.attention = Attention()
            self.post_norm = RMSNorm()
            self.mlp = Gated()

        def forward(self, x, angles):
            x = x + self.attention(self.input_norm(x), angles)
            return x + self.mlp(self.post_norm(x))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(32, 16)
            self.layers = torch.nn.ModuleList(Block() for _ in range(2))
            self.norm = RMSNorm()

        def forward(self, tokens):
            x = self.embed(tokens)
            angles = torch.arange(tokens.shape[1])[:, None] / 10.0 ** torch.arange(8)
            for layer in self.layers:
                x = layer(x, angles)
            return F.linear(self.norm(x), self.embed.weight)

    def inputs(length=8):
        return torch.zeros(2, length, dtype=torch.int64)
    """

# Twice the same module, a checkpoint, a Function, a graph break, and an operator of the root.
MIXED = """
    from torch.utils.checkpoint import checkpoint

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sin() * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.cos() * 2

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return Scale.apply(x)

    class Breaking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16, 16)
            self.second = torch.nn.Linear(16, 16)

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = torch.nn.Linear(16, 16)
            self.scaled = Scaled()
            self.kept = MLP()
            self.breaking = Breaking()

        def forward(self, x):
            x = self.shared(self.shared(x).relu())
            x = checkpoint(self.kept, self.scaled(x), use_reentrant=False)
            return self.breaking(x).softmax(-1)

    def inputs(length=8):
        return torch.ones(2, length, 16)
    """
MODELS = {"gpt": GPT, "llama": LLAMA, "mixed": MIXED}

TRAIN = """
    model = torch.compile(Model(), dynamic=DYNAMIC)

    def step(length=8):
        model(inputs(length)).sum().backward()

    step()
    """
INFER = """
    model = torch.compile(Model().eval(), dynamic=DYNAMIC)

    @torch.no_grad()
    def step(length=8):
        model(inputs(length))

    step()
    """
RECORD = """
    record(step, "both", context="python+scopes", modules=True)
    record(step, "lines", context="python")
    record(step, "modules", modules=True)
    print(inductor_kernels.hits())
    """


@pytest.fixture(scope="module")
def python():
    with WarmPython(IMPORTS, TORCHINDUCTOR_COMPILE_THREADS="1") as python:
        yield python


def run(python, tmp_path, *code, env=None):
    """The output; generated files are in tmp_path/cache."""
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "PROTON_QUIET": "1", **(env or {})
    }
    return python.script("".join((START, *code)), variables)


def launches(name):
    """(path, count) of each kernel."""
    return [
        (path, node["metrics"]["count"])
        for path, node in walk(load(f"{name}.hatchet"))
        if "count" in node["metrics"] and not node["children"]
    ]


def call_of(path):
    """The index of the frame that calls the kernel, and what the graph tells above that line."""
    calls = [i for i, name in enumerate(path) if re.search(r"/c\w{20,}\.py:\d+@", name)]
    file, _, line = path[calls[-1]].partition("@")[0].rpartition(":")
    above = Path(file).read_text(encoding="utf-8").split("\n")[: int(line)]
    marks = [text for text in above if MARK in text]
    return calls[-1], json.loads(marks[-1].partition(MARK)[2])


def common(modules):
    if not modules:
        return ""
    split = [name.split(".") if name else [] for name in modules]
    found = []
    for parts in zip(*split):
        if len(set(parts)) > 1:
            break
        found.append(parts[0])
    return ".".join(found)


def is_line(name):
    return re.fullmatch(r".*script\.py:\d+@\w+", name)


def expected_of(modules, known):
    """The innermost called module that contains all, and the others without its name."""
    inner = common(modules)
    while inner and inner not in known:
        inner = inner.rpartition(".")[0]
    skip = len(inner) + 1 if inner else 0
    return inner, {name[skip:] for name in modules if name != inner}


def check(modules):
    """Each kernel has the modules and a line that the graphs' metadata give."""
    seen = Counter()
    for path, count in launches("both"):
        index, expected = call_of(path)
        below = path[index + 1 : -1]
        names = [name for name in below if not re.search(r"@|^<", name)]
        inside = [name[4:-1] for name in below if name.startswith("<in ")]
        around = [name for name in path[:index] if name in modules][-1:]
        expected = [name and ".".join((*around, name)) for name in expected]
        if None in expected:
            # The package takes the modules of a sum's newest term: others than it, at most.
            others = expected_of([name for name in expected if name is not None], modules)[0]
            assert not names or not others or f"{others}.".startswith(names[-1] + ".")
            seen[names[-1] if names else ""] += count
            continue
        inner, others = expected_of(expected, modules)
        assert (names[-1] if names else "") == inner, (path, expected)
        assert names == [
            name
            for name in modules
            if (inner + ".").startswith(name + ".") and name not in around
        ]
        found = set(inside[0].split(", ")) if inside else set()
        assert found == others or "..." in found, (path, expected)
        (line,) = (name for name in below if is_line(name))
        assert below.index(line) == len(names) + len(inside)
        seen[inner] += count
    return seen


def modules_of(model):
    """Called modules of the model, in the order of named_modules()."""
    return [line for line in Path("names.txt").read_text().split() if line]


NAMES = """
    with open("names.txt", "w") as file:
        called = [n for n, m in Model().named_modules() if type(m) is not torch.nn.ModuleList]
        file.write("\\n".join(called))
    """


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def check_profiles(model):
    """The three of RECORD; returns the sums of the modules."""
    seen = check(modules_of(model))
    assert sum(seen.values()) == sum(count for _, count in launches("modules"))
    # Without lines: the same modules, below that of the whole model.
    shadow = Counter()
    for path, count in launches("modules"):
        names = [name for name in path[1:-1] if not name.startswith("<")]
        assert path[0] == "Model"
        shadow[names[-1] if names else ""] += count
    assert shadow == seen
    # Without modules: the same lines.
    for path, _ in launches("lines"):
        assert len([name for name in path[call_of(path)[0] + 1 :] if is_line(name)]) == 1
    assert sum(count for _, count in launches("lines")) == sum(seen.values())
    return seen


# Inference of the first two is below, beside that of eager code.
CASES = [*((model, TRAIN, False) for model in MODELS), ("mixed", INFER, False)]
CASES += [("gpt", TRAIN, True), ("llama", TRAIN, True)]


@pytest.mark.parametrize(("model", "use", "dynamic"), CASES)
def test_kernels_have_modules_and_lines_of_the_graph(model, use, dynamic, python, tmp_path):
    code = MODELS[model]
    use = use.replace("DYNAMIC", str(dynamic))
    if dynamic:  # takes twice the time: one layer of the two
        code = code.replace("range(2)", "range(1)")
        use += "\n    step(12)\n"
    run(python, tmp_path, code, NAMES, use, RECORD)
    check_profiles(model)


# Eagerly, each operator of ATen that computes is a kernel, which is counted for the module and the
# operator that run, by other means than the package's.
EAGER = """
    import collections, json
    from torch.utils._python_dispatch import TorchDispatchMode

    model = Model().eval()
    running, truth = ["(no layer)"], collections.defaultdict(collections.Counter)
    for name, module in model.named_modules():
        if type(module) is not torch.nn.ModuleList:
            module.register_forward_pre_hook(lambda *_, n=name: running.append(n or "Model"))
            module.register_forward_hook(lambda *_: running.pop() and None)

    class Kernels(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            name = function._schema.name
            if name not in ("aten::detach", "aten::alias"):
                inductor_kernels.launch("eager_" + name.replace("::", "_"))
                truth["layer"][running[-1]] += 1
                truth["operator"][name] += 1
            return function(*arguments, **(options or {}))

    @torch.no_grad()
    def step(length=8):
        with Kernels():
            model(inputs(length))

    record(step, "eager", modules=True, torch_ops=True)
    with open("truth.json", "w") as file:
        json.dump(truth, file)
    """
COMPILED = """
    compiled = torch.compile(model, dynamic=False)

    @torch.no_grad()
    def step(length=8):
        compiled(inputs(length))

    step()
    """


def counts(group, name, *options):
    command = ["proton-viewer", "--json", "--group", group, "-m", "count", *options]
    rows = json.loads(run_command([*command, f"{name}.hatchet"]).stdout)["rows"]
    return {row["frame"]: row["metrics"] for row in rows if row["frame"] != "ROOT"}


def count_of(group, name, *options):
    return {
        frame: numbers["count"]
        for frame, numbers in counts(group, name, *options).items()
        if numbers["count"]
    }


def operators_of(path):
    """The list in the comment above the call, as PyTorch writes operators."""
    calls = [name for name in path if re.search(r"/c\w{20,}\.py:\d+@", name)]
    file, _, line = calls[-1].partition("@")[0].rpartition(":")
    above = Path(file).read_text(encoding="utf-8").split("\n")[: int(line)]
    comment = next(text for text in reversed(above) if "Original ATen: [" in text)
    names = re.search(r"Original ATen: \[(.*?)\]", comment)[1].split(", ")
    return ", ".join(dict.fromkeys(name.replace(".", "::", 1) for name in names))


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="operators are recorded on x86-64 only")
@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_eager_and_compiled_code_are_compared_by_module_and_operator(model, python, tmp_path):
    run(python, tmp_path, MODELS[model], NAMES, EAGER, COMPILED, RECORD)
    truth = json.loads(Path("truth.json").read_text())
    assert count_of("layer", "eager") == truth["layer"]
    assert count_of("operator", "eager") == truth["operator"]
    compiled = {name or "Model": count for name, count in check_profiles(model).items()}
    assert count_of("layer", "both") == compiled
    operators = Counter()
    for path, count in launches("both"):
        operators[operators_of(path)] += count
    found = count_of("operator", "both")
    assert sum(found.values()) == sum(operators.values())
    for name, count in operators.items():  # long lists are cut
        assert found.get(name) == count or len(name) > 100

    # No kernel has the same name on both sides; each part of the model has.
    old, new = (Counter(), Counter())
    for sums, side in ((old, truth["layer"]), (new, compiled)):
        for name, count in side.items():
            sums[".".join(name.split(".")[:2])] += count
    rows = counts("layer", "both", "-d", "2", "--diff", "eager.hatchet")
    assert {name: row["count before"] for name, row in rows.items() if row["count before"]} == old
    assert {name: row["count after"] for name, row in rows.items() if row["count after"]} == new
    assert {name for name in new if name.startswith("layers.")} == {"layers.0", "layers.1"}


SMALL = """
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = MLP()

        def forward(self, x):
            return self.mlp(x) + 1

    def inputs(length=8):
        return torch.ones(length, 16)
    """
USE = INFER.replace("DYNAMIC", "False")
MISSING = "compiled code from a cache has no modules and lines"


def modules_seen(name="both"):
    return {name for path, _ in launches(name) for name in path if name.startswith("mlp")}


def run_counted(python, tmp_path, *code, **env):
    """(hits and misses of the cache, messages) of a new process."""
    done = run(python, tmp_path, *code, env={"PROTON_QUIET": "0", **env})
    return json.loads(done.stdout.strip().split("\n")[-1].replace("'", '"')), done.stderr


def test_names_are_in_a_warm_cache(python, tmp_path):
    cold, _ = run_counted(python, tmp_path, SMALL, USE, RECORD)
    assert cold["miss"] == 1 and modules_seen() == {"mlp", "mlp.up", "mlp.down"}
    warm, messages = run_counted(python, tmp_path, SMALL, USE, RECORD)
    assert warm == {"hit": 1, "miss": 0, "bypass": 0} and MISSING not in messages
    assert modules_seen() == {"mlp", "mlp.up", "mlp.down"}


def test_a_cache_filled_without_proton_is_used_and_a_message_names_the_loss(python, tmp_path):
    cold, _ = run_counted(python, tmp_path, SMALL, USE, RECORD, PROTON_COMPILED="0")
    assert cold["miss"] == 1 and not modules_seen()
    warm, messages = run_counted(python, tmp_path, SMALL, USE, RECORD)
    assert warm == {"hit": 1, "miss": 0, "bypass": 0}
    assert messages.count(MISSING) == 1 and "TORCHINDUCTOR_CACHE_DIR" in messages
    assert not modules_seen() and all("@" in path[0] for path, _ in launches("lines"))
    # Its entry is used without us, too.
    again, _ = run_counted(python, tmp_path, SMALL, USE, RECORD, PROTON_COMPILED="0")
    assert again == {"hit": 1, "miss": 0, "bypass": 0}


def test_only_comments_of_generated_code_differ(python, tmp_path):
    def generated(place):
        found = {}
        for path in sorted((tmp_path / place / "cache").rglob("c*.py")):
            text = path.read_text(encoding="utf-8")
            code = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
            assert ("{@" in text) == (place == "with")
            found["\n".join(code).replace(str(tmp_path / place), "")] = True
        return sorted(found)  # files are named for their text

    for place, wanted in (("with", "1"), ("without", "0")):
        (tmp_path / place).mkdir()
        train = TRAIN.replace("DYNAMIC", "False")
        run(python, tmp_path / place, SMALL, train, RECORD, env={"PROTON_COMPILED": wanted})
    assert generated("with") == generated("without") and len(generated("with")) == 2


def test_passes_of_the_program_run_and_see_an_unchanged_graph(python, tmp_path):
    passes = """
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Pass(CustomGraphPass):
        def __call__(self, graph):
            names = [n.meta["from_node"][0].name for n in graph.nodes if "from_node" in n.meta]
            print("pass:", any("{@" in name for name in names), len(names) > 0)

        def uuid(self):
            return "the program's"

    torch._inductor.config.post_grad_custom_post_pass = Pass()
    """
    done = run(python, tmp_path, passes, SMALL, USE, RECORD)
    assert done.stdout.startswith("pass: False True\n") and modules_seen()


WITHOUT_HOOK = """
    import torch._inductor.compile_fx as module
    from triton_proton import _compiled
    original = module._recursive_post_grad_passes.__wrapped__
    del module._recursive_post_grad_passes
    _compiled._replaced.restore()
    _compiled._watch(module)
    module._recursive_post_grad_passes = original
    """
OTHER_METADATA = """
    from triton_proton import _compiled

    def fail(stack):
        raise KeyError("nn_module_stack")

    _compiled.modules_of = fail
    """


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (WITHOUT_HOOK, "no _recursive_post_grad_passes"),
        (OTHER_METADATA, "KeyError: 'nn_module_stack'"),
    ],
)
def test_another_version_of_inductor_is_named_and_compiles(change, why, python, tmp_path):
    _, messages = run_counted(python, tmp_path, change, SMALL, USE, RECORD)
    assert messages.count("is not supported (" + why + ")") == 1
    assert "Traceback" not in messages and not modules_seen()
    assert len(launches("lines")) == 4


def test_a_compiled_part_continues_the_names_of_its_module(python, tmp_path):
    regional = """
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.compile(Model()) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Outer()

    @torch.no_grad()
    def step():
        model(inputs())

    step()
    """
    run(python, tmp_path, SMALL, regional, RECORD)
    found = [[name for name in path[:-1] if "<" not in name] for path, _ in launches("modules")]
    for i in range(2):
        mlp = ["Outer", f"layers.{i}", f"layers.{i}.mlp"]
        assert [*mlp, f"layers.{i}.mlp.up"] in found and [*mlp, f"layers.{i}.mlp.down"] in found
    assert {path[0] for path in found} == {"Outer"}


def test_a_compiled_function_names_the_model_that_it_calls(python, tmp_path):
    function = """
    model = Model()

    @torch.compile
    @torch.no_grad()
    def step():
        return model(inputs())

    step()
    """
    run(python, tmp_path, SMALL, function, RECORD)
    found = [path for path, _ in launches("both") if "mlp" in path]
    assert len(found) >= 3
    for path in found:
        assert path[path.index("mlp") - 1] == "Model"
    assert modules_seen() == {"mlp", "mlp.up", "mlp.down"}


PRINT_SHAPES = """
    def describe(value):
        sizes = "x".join(map(str, value.shape))
        return f"f{value.dtype.itemsize * 8}[{sizes}]"

    class Told(inductor_kernels.Extern):
        def __getattr__(self, name):
            run = super().__getattr__(name)

            def told(*arguments, **options):
                print("call:", ", ".join(map(describe, arguments)))
                return run(*arguments, **options)

            return told

    from torch._inductor import select_algorithm
    select_algorithm.extern_kernels = Told(select_algorithm.extern_kernels.kernels)
    """
RECORD_SHAPES = """
    print("compiled")
    record(step, "shaped", context="python", shapes=True)
    record(step, "lines", context="python")
    record(step, "below", modules=True, shapes=True)
    record(step, "modules", modules=True)
    """


def shapes_in(name, kernel="addmm"):
    """The shapes of the operators above each launch of a kernel."""
    found = Counter()
    for path, count in launches(name):
        operators = [re.search(r" \((.*)\)>$", frame) for frame in path if frame[0] == "<"]
        if path[-1] == kernel:
            found[next((match[1] for match in operators if match), "")] += count
    return found


def test_operators_have_the_shapes_of_the_arguments(python, tmp_path):
    done = run(python, tmp_path, PRINT_SHAPES, SMALL, USE, RECORD_SHAPES)
    calls = done.stdout.partition("compiled\n")[2].split("\n")
    given = Counter(line[6:] for line in calls[:2])
    assert set(given) == {"f32[32], f32[8x16], f32[16x32]", "f32[16], f32[8x32], f32[32x16]"}
    assert shapes_in("shaped") == shapes_in("below") == given
    for path, _ in launches("below"):
        assert path[-2].startswith("<") and path[0] == "Model"
    # A fused kernel has each shape once. Sessions that did not ask have none.
    assert set(shapes_in("shaped", "triton_poi_fused_gelu_0")) == {"f32[8x32]"}
    assert set(shapes_in("lines")) == set(shapes_in("modules")) == {""}
    assert {path[-2] for path, _ in launches("modules")} <= {"mlp", "mlp.up", "mlp.down", "Model"}


def test_sizes_that_change_have_their_symbols(python, tmp_path):
    use = INFER.replace("DYNAMIC", "True") + "\n    step(12)\n"
    run(python, tmp_path, SMALL, use, RECORD_SHAPES)
    shapes = [re.sub(r"s\d+", "N", text) for text in shapes_in("shaped")]
    assert sorted(shapes) == ["f32[16], f32[Nx32], f32[32x16]", "f32[32], f32[Nx16], f32[16x32]"]
