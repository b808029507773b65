"""PC sampling without a GPU: a cubin of Triton's ptxas, sampled by the fake libcupti."""

import signal
import sys

import pytest
from fake_driver import CC, LAUNCH_STRUCT, PC_STRUCT, fake_environment
from support import at, load, run_command, script, walk

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

# Samples each instruction of a kernel once; `end` is how the program ends.
PROGRAM = """
import ctypes, os, signal, sys, time
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton_proton as proton


@triton.jit
def add(x, y, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    v = tl.load(x + at)  # LOAD
    tl.store(y + at, v * 2)  # STORE


signature = {"x": "*fp32", "y": "*fp32", "n": "constexpr"}
source = ASTSource(fn=add, signature=signature, constexprs={"n": 1024})
cubin = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


"""
PROGRAM += LAUNCH_STRUCT + PC_STRUCT
PROGRAM += """
os.environ["FAKE_CUDA_NO_CONTEXT"] = "1"
fake = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
for mine, name in (Launch, "fake_launch_bytes"), (Pc, "fake_pc_bytes"):
    assert ctypes.sizeof(mine) == ctypes.c_uint32.in_dll(fake, name).value, name
ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
fake.fake_module_load.restype = fake.fake_module_function.restype = ctypes.c_void_p
fake.fake_module_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
fake.fake_module_function.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
fake.fake_module_crc.restype = ctypes.c_uint64
fake.fake_module_crc.argtypes = [ctypes.c_void_p]
context = 1

def launch(function):
    now = time.monotonic_ns()
    config = (ctypes.c_uint32 * 9)(1, 1, 1, 128, 1, 1)
    work = Launch(307, b"add", context, 0, 7, 1, now, now + 1000, config=config, function=function)
    fake.fake_launch(ctypes.byref(work))

session = proton.start("test", backend="cupti", mode=MODE) if MODE else 0
module = fake.fake_module_load(cubin, len(cubin))
function = fake.fake_module_function(module, b"add")
with proton.scope("s"):
    launch(function)
for offset in range(0, 2048, 16):
    pc = Pc(fake.fake_module_crc(module), b"add", b"wait", offset, 1)
    fake.fake_pcs_take(ctypes.c_void_p(context), ctypes.byref(pc))
"""


def run(end: str, mode: str = "pcsampling", command: tuple[str, ...] = (), status: int = 0) -> None:
    code = PROGRAM.replace("MODE", repr(mode)) + end
    with open("program.py", "w", encoding="utf-8") as file:
        file.write(code)
    result = run_command(
        [sys.executable, *command, "program.py"], env=fake_environment(PROTON_BACKEND="cupti"),
        status=status,
    )


def line_of(marker: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if f"# {marker}" in line)


def check(root: dict) -> None:
    kernel = at(root, "s", "add")
    frames = [(path[-1], node) for path, node in walk(kernel)]
    for node in [kernel, *(node for _, node in frames)]:
        names = [child["frame"]["name"] for child in node["children"]]
        assert sorted(set(names)) == sorted(names)  # whatever their columns
    lines = {name for name, _ in frames if name.endswith("@add") and "program.py:" in name}
    for marker in ("LOAD", "STORE"):
        assert any(f"program.py:{line_of(marker)}@add" in name for name in lines)
    total = kernel["metrics"].get("num_samples", 0)
    total += sum(node["metrics"].get("num_samples", 0) for _, node in frames)
    assert total == 128


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    # A cubin of another run names the source file of that run.
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


def test_samples_are_on_the_lines_of_a_triton_kernel():
    run("proton.finalize(session)")
    check(load("test.hatchet"))


LATE = """
module = fake.fake_module_load(cubin, len(cubin))
session = proton.start("test", backend="cupti", mode=MODE)
with proton.scope("s"):
    launch(None)
"""


@pytest.mark.parametrize("where", ["environment", "knobs", "nowhere"])
def test_a_kernel_that_was_loaded_before_has_the_cubin_of_the_cache(monkeypatch, where):
    """CUPTI gives it at a launch of its function, which a graph is not."""
    begin = PROGRAM.index("session = proton.start")
    end = PROGRAM.index("for offset in")
    program = PROGRAM[:begin] + LATE + PROGRAM[end:]
    if where == "knobs":
        knobs = "triton.knobs.propagate_env = False\ntriton.knobs.cache.dir = 'knobs'\n"
        program = program.replace('signature = {"x"', knobs + 'signature = {"x"')
        monkeypatch.delenv("TRITON_CACHE_DIR")
    if where == "nowhere":
        program += "import shutil; shutil.rmtree(os.environ['TRITON_CACHE_DIR'])\n"
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program)
    run("proton.finalize(session)")
    root = load("test.hatchet")
    if where == "nowhere":
        assert at(root, "s", "add")["metrics"]["num_samples"] == 128
        assert not at(root, "s", "add")["children"]
    else:
        check(root)


def test_the_command_samples_a_program():
    run("", mode="", command=("-m", "triton_proton", "-m", "pcsampling", "-n", "test"))
    check(load("test.hatchet"))


def test_upstream_object_means_its_interval():
    run("proton.finalize(session)", mode="pcsampling:interval=1000")
    root = load("test.hatchet")
    check(root)
    assert root["proton"]["info"]["pc_sampling_interval"] == "1024"


def test_the_header_compares_the_samples_with_those_expected(monkeypatch):
    program = PROGRAM.replace("now + 1000,", "now + 20_000_000,")
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program)
    run("proton.finalize(session)")
    info = load("test.hatchet")["proton"]["info"]
    assert info["pc_sampling_received"] == "128"
    share = 100 * 128 / int(info["pc_sampling_expected"])
    assert 0 < share < 97
    printed = run_command([sys.executable, "-m", "triton_proton.viewer", "test.hatchet"]).stdout
    assert f"{share:.1f} % of the expected PC samples" in printed


def test_a_killed_program_leaves_samples_and_machine_code():
    end = """
until = time.monotonic() + 30
while time.monotonic() < until:
    counters = {name: value for name, value, _ in proton._libproton.statistics(session)}
    if counters["PC samples"] == 128:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
"""
    run(end, status=-signal.SIGKILL)
    viewer = [sys.executable, "-m", "triton_proton.viewer"]
    printed = run_command([*viewer, "-m", "num_samples", "test.proton"]).stdout
    assert f"program.py:{line_of('LOAD')}@add" in printed


def test_lines_of_a_noinline_function_have_its_name(monkeypatch):
    callee = """
@triton.jit(noinline=True)
def far(a):
    return tl.sqrt(a) / (a + 1.0)  # CALLEE


@triton.jit
def add("""
    program = PROGRAM.replace("\n@triton.jit\ndef add(", callee)
    program = program.replace("v = tl.load(x + at)", "v = far(tl.load(x)) + tl.load(x + at)")
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program)
    run("proton.finalize(session)")
    kernel = at(load("test.hatchet"), "s", "add")
    names = {node["frame"]["name"].rpartition("/")[2] for _, node in walk(kernel)}
    found = {name for name in names if f"program.py:{line_of('CALLEE')}@" in name}
    (name,) = found
    assert "far" in name.rpartition("@")[2]
    assert f"program.py:{line_of('LOAD')}@add" in names


def test_samples_that_were_not_issued_are_in_no_metric(monkeypatch):
    """They are a subset of the samples with the same reason."""
    program = PROGRAM.replace('b"wait", offset, 1)', 'b"wait", offset, 3, 2)')
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program)
    run("proton.finalize(session)")
    metrics: dict[str, int] = {}
    for _, node in walk(load("test.hatchet")):
        for name, value in node["metrics"].items():
            if "stalled" in name or "samples" in name:
                metrics[name] = metrics.get(name, 0) + value
    assert metrics == dict.fromkeys(["num_samples", "num_stalled_samples", "stalled_wait"], 384)


def test_the_profile_file_has_the_source_text():
    run('proton.finalize(session, "proton")')
    with open("test.proton", "rb") as file:
        content = file.read()
    assert b"v = tl.load(x + at)  # LOAD" in content
    assert b"\x7fELF" in content


def test_a_forked_child_does_not_touch_cupti():
    end = """
child = os.fork()
if child == 0:
    with proton.scope("child"):
        pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
proton.finalize(session)
"""
    run(end)
    check(load("test.hatchet"))


def test_other_backends_refuse_the_mode():
    found = script(
        """
        import triton_proton as proton
        try:
            proton.start("test", backend="host", mode="pcsampling")
        except ValueError as error:
            print(error)
        """
    )
    message = 'host: unsupported mode: pcsampling; it is a mode of the backends "cupti"'
    assert message in found.stdout
