"""Sessions that begin and end while other threads use the driver: nothing fails in the program, no
result changes, and CUPTI is left. Skipped without a GPU.

    python -m pytest tests/gpu/test_leaving.py

Each case is a separate process: a lost CUDA context ends it. The second interface is tried if
PROTON_TEST_CUPTI_SECOND names a libcupti of 13.3 update 1 or later.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "CUPTI and CUDA graphs")

HERE = Path(__file__).parent
CC = shutil.which(os.environ.get("CC", "cc"))
SESSIONS = 200
SECOND = os.environ.get("PROTON_TEST_CUPTI_SECOND")

PRELUDE = """
import json, threading, time, torch
import triton_proton as proton

x = torch.randn(256, 256, device="cuda")

def make_graph(nodes=50):
    y = torch.zeros_like(x)
    for _ in range(3):
        y.add_(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y.zero_()
        for _ in range(nodes):
            y.add_(x)
    return graph, y, nodes

class Replays:
    '''A thread that replays a graph until it has to end.'''

    def __init__(self):
        self.graph, self.y, self.nodes = make_graph()
        self.count, self.error, self.must_end = 0, None, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                while not self.must_end:
                    self.graph.replay()
                    stream.synchronize()
                    self.count += 1
        except Exception as error:
            self.error = str(error)

    def end(self):
        self.must_end = True
        self.thread.join()
        assert self.error is None, self.error
        assert torch.allclose(self.y, x * self.nodes, rtol=1e-3, atol=1e-3)

    def rate(self, seconds=0.5):
        before = self.count
        time.sleep(seconds)
        return (self.count - before) / seconds

def read(name):
    with open(name + ".hatchet") as file:
        return json.load(file)
"""


@pytest.fixture(scope="module")
def storm_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not CC:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("storm") / "libstorm.so"
    command = [CC, "-O1", "-shared", "-fPIC", "-pthread", "-o", path, HERE / "storm.c", "-ldl"]
    subprocess.run([str(part) for part in command], check=True, timeout=300)
    return str(path)


def run(tmp_path: Path, code: str, **environment: str) -> tuple[dict, str]:
    """The JSON that `code` prints last, and its standard error."""
    script = tmp_path / "case.py"
    script.write_text(PRELUDE + textwrap.dedent(code))
    result = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=os.environ | environment,
        capture_output=True, text=True, timeout=180,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


INTERFACES = [pytest.param({}, id="as-it-comes")]
if SECOND:
    INTERFACES.append(pytest.param({"PROTON_CUPTI_PATH": SECOND}, id="second"))


def check_storm(
    tmp_path: Path, arguments: list[object], sessions: int, timeout: float, **environment: str
) -> None:
    """Run storm_sessions.py, which must end its sessions in that many seconds, without an error."""
    result = subprocess.run(
        [sys.executable, str(HERE / "storm_sessions.py"), *map(str, arguments)], cwd=tmp_path,
        env=os.environ | environment, capture_output=True, text=True, timeout=timeout,
    )
    print(result.stdout, result.stderr[-3000:])
    assert result.returncode == 0
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["sessions"] == sessions
    assert not any(answer["results"].values())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("threads", ["python", "c"])
@pytest.mark.parametrize("environment", INTERFACES)
def test_a_storm_of_calls_and_sessions(tmp_path, storm_library, threads, seed, environment):
    check_storm(tmp_path, [storm_library, threads, SESSIONS, seed], SESSIONS, 450, **environment)


def test_sessions_end_while_a_thread_replays(tmp_path):
    answer, printed = run(
        tmp_path,
        """
        replays = Replays()
        before = replays.rate()
        for k in range(6):
            proton.start(f"s{k}")
            time.sleep(0.2)
            proton.finalize()
            time.sleep(0.1)
        after = replays.rate()
        replays.end()
        counts = [read(f"s{k}")[0]["children"] != [] for k in range(6)]
        print(json.dumps({"before": before, "after": after, "counts": counts}))
        """,
    )
    assert answer["counts"] == [True] * 6
    assert answer["after"] > 0.85 * answer["before"]  # attached costs half of them
    assert "stays attached" not in printed


def test_a_deactivated_session_leaves_and_an_activated_one_records(tmp_path):
    answer, printed = run(
        tmp_path,
        """
        session = proton.start("s")
        replays = Replays()
        time.sleep(0.3)
        proton.deactivate(session)
        time.sleep(1.3)
        deactivated = replays.rate()
        proton.activate(session)
        time.sleep(0.3)
        proton.finalize(session)
        after = replays.rate()
        replays.end()
        print(json.dumps({"deactivated": deactivated, "after": after}))
        """,
    )
    assert answer["deactivated"] > 0.85 * answer["after"]
    assert "stays attached" not in printed


def test_samples_of_graphs_that_are_older_than_the_session(tmp_path):
    answer, printed = run(
        tmp_path,
        """
        replays = [Replays() for _ in range(4)]
        starts = []
        for k in range(6):
            begin = time.monotonic()
            proton.start(f"s{k}", mode="pcsampling")
            starts.append(time.monotonic() - begin)
            time.sleep(0.2)
            proton.finalize()
            time.sleep(0.1)
        for one in replays:
            one.end()

        def samples(node):
            return node["metrics"].get("num_samples", 0) + sum(map(samples, node["children"]))

        print(json.dumps({"samples": [samples(read(f"s{k}")[0]) for k in range(6)],
                          "starts": starts[1:]}))
        """,
    )
    print(answer, printed)
    first, *later = answer["samples"]
    # Enabling takes 0.15 s in the first session, and CUPTI decodes few samples in what is left.
    assert first > 100 and all(count > 1000 for count in later)
    assert max(answer["starts"]) < 0.2
    # 24 % of the samples of kernels of 2 us are of the code that CUPTI adds (H100, CUPTI 13.0); all
    # samples of the graphs would be if one was replayed before sampling was enabled.
    shares = re.findall(r"(\d+) % of the PC samples", printed)
    assert all(int(share) < 50 for share in shares), shares


def test_a_thousand_sessions_take_less_than_64_mb_of_gpu_memory(tmp_path):
    answer, _ = run(
        tmp_path,
        """
        graph, y, nodes = make_graph(20)
        used = []
        for k in range(1001):
            proton.start("s")
            graph.replay()
            torch.cuda.synchronize()
            proton.finalize()
            if k in (0, 50, 100, 200, 500, 1000):
                free, total = torch.cuda.mem_get_info()
                used.append((total - free) / 2**20)
        print(json.dumps({"used": used}))
        """,
    )
    print(answer)
    assert answer["used"][-1] - answer["used"][0] <= 64
