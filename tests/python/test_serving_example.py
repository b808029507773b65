"""examples/server.py: its own profiles, `proton ctl` and `proton attach`, on the CPU."""

import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from support import load, metrics, names
from test_attach import needs_way_in
from test_docs_commands import blocks

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "server.py"
PROMPTS = [[3, 1, 4], [1], [5, 9, 2, 6, 5], [35] * 8, [8, 9, 7], [9, 3]]
TOKENS = [3, 5, 1, 4, 2, 6]

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "triton")),
    reason="needs torch and Triton",
)


class Server:
    """The example, until the block ends."""

    def __init__(self, cwd: Path, *before: str) -> None:
        (cwd / "run").mkdir()
        self.cwd = cwd
        self.env = environment(XDG_RUNTIME_DIR=str(cwd / "run"), TRITON_INTERPRET="1")
        command = [*(before or [sys.executable]), str(EXAMPLE), "--port", "0"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=cwd, env=self.env, stdout=pipe, stderr=pipe, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("serving on http://127.0.0.1:"), self.process.communicate(timeout=60)
        self.address = line.split()[-1]

    def post(self, action: str, **body) -> dict:
        request = urllib.request.Request(
            f"{self.address}/{action}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)

    def refuse(self, action: str, **body) -> str:
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.post(action, **body)
        return json.load(caught.value)["error"]

    def generate(self) -> list[list[int]]:
        """All requests at once."""
        with ThreadPoolExecutor(len(PROMPTS)) as clients:
            asked = [
                clients.submit(self.post, "generate", prompt=prompt, tokens=count)
                for prompt, count in zip(PROMPTS, TOKENS)
            ]
            return [one.result(timeout=300)["tokens"] for one in asked]

    def command(self, *words: str) -> str:
        done = run([executable("proton"), *words], self.cwd, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def serving(cwd: Path, *before: str):
    server = Server(cwd, *before)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate(timeout=60)


def check_profile(path: Path) -> None:
    root = load(path)
    assert names(root) == {"prefill", "decode"}
    assert metrics(root, "prefill")["tokens"] == sum(map(len, PROMPTS))
    assert metrics(root, "decode")["tokens"] == sum(TOKENS)
    assert metrics(root, "prefill", "absorb")["count"] == len(PROMPTS)
    steps = metrics(root, "decode", "choose")["count"]
    assert max(TOKENS) <= steps <= sum(TOKENS)
    assert metrics(root, "decode", "layer")["count"] == 2 * steps


def test_profiles_on_request_and_the_same_answers_with_them(tmp_path):
    with serving(tmp_path) as server:
        plain = server.generate()
        assert [len(tokens) for tokens in plain] == TOKENS
        alone = [
            server.post("generate", prompt=prompt, tokens=count)["tokens"]
            for prompt, count in zip(PROMPTS, TOKENS)
        ]
        assert alone == plain  # a batch changes no answer
        assert server.refuse("stop_profile") == "no profile is being recorded"
        for run_number in range(2):
            server.post("start_profile")
            assert server.refuse("start_profile") == "a profile is being recorded already"
            assert server.generate() == plain
            found = server.post("stop_profile")
            assert found["profile"] == f"server_{run_number}.hatchet"
            check_profile(tmp_path / found["profile"])
            assert found["prefill"]["tokens"] == sum(map(len, PROMPTS))
            assert set(found["decode"]["us_of_kernels"]) == {"layer", "choose"}
            times = found["decode"]["us_of_kernels"].values()
            per_token = found["decode"]["us_per_token"]
            assert per_token == pytest.approx(sum(times) / sum(TOKENS)) and per_token > 0
        assert "prompt" in server.refuse("generate", prompt=[], tokens=1)
        assert server.refuse("other") == "there is no /other"


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_commands_of_the_page(tmp_path):
    """Those of own-server.md."""
    page = EXAMPLE.parents[1] / "docs" / "guide" / "own-server.md"
    (block,) = [block for block in blocks(page) if "/start_profile" in block.text.splitlines()[0]]
    with serving(tmp_path) as server:
        for command, output in block.steps():
            command = command.replace("localhost:8000", server.address)
            place = Path(executable("proton")).parent
            env = {**server.env, "PATH": f"{place}:{server.env['PATH']}"}
            done = run(["bash", "-c", command], tmp_path, env=env)
            assert done.returncode == 0, done.stderr
            shown, is_cut, _ = (output or "...").partition("...")
            assert done.stdout == shown if not is_cut else done.stdout.startswith(shown)
    assert names(load(tmp_path / "server_0.hatchet")) == {"prefill", "decode"}


def test_a_server_that_waits_for_proton_ctl(tmp_path):
    with serving(tmp_path, executable("proton"), "--wait", "-n", "serve", "-k", "triton") as server:
        plain = server.generate()
        assert server.command("ctl", "serve", "start") == f"recording to {tmp_path}/serve"
        assert server.generate() == plain
        check_profile(Path(server.command("ctl", "serve", "stop")))


@needs_way_in
def test_a_server_that_is_attached_to(tmp_path):
    with serving(tmp_path) as server:
        plain = server.generate()
        server.command("attach", "-n", "mine", str(server.process.pid))
        server.command("ctl", "mine", "start", "-k", "triton")
        assert server.generate() == plain
        check_profile(Path(server.command("ctl", "mine", "stop")))
        server.command("ctl", "mine", "leave")
        assert server.generate() == plain


def test_the_first_prefill_alone(tmp_path):
    before = [executable("proton"), "--range", "prefill", "-n", "first"]
    with serving(tmp_path, *before) as server:
        server.generate()
        root = load(tmp_path / "first.hatchet")
    assert names(root) == {"prefill"}
    assert metrics(root, "prefill", "absorb")["count"] == 1
