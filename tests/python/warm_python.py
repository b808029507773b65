"""A Python that has imported slow modules already, and runs each script in a fork."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

# One line of JSON on the standard input for each script; its exit status is the answer.
SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["folder"])
for descriptor, name in ((1, "stdout.txt"), (2, "stderr.txt")):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
exec(compile(open("script.py").read(), os.path.abspath("script.py"), "exec"))
"""


class WarmPython:
    """`imports` are statements; `variables` hold while they run."""

    def __init__(self, imports: str, **variables: str) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-c", imports + SERVER], env={**os.environ, **variables},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )

    def script(
        self, code: str, env: dict[str, str | None], status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run `code` as a script in the current directory; `status` None takes any exit status."""
        Path("script.py").write_text(textwrap.dedent(code), encoding="utf-8")
        given = {**os.environ, "PROTON_QUIET": None, **env}
        environment = {k: v for k, v in given.items() if v is not None}
        request = {"folder": os.getcwd(), "environment": environment}
        assert self.server.stdin and self.server.stdout
        print(json.dumps(request), file=self.server.stdin, flush=True)
        assert select.select([self.server.stdout], [], [], 300)[0], "the script does not end"
        ended = int(self.server.stdout.readline())
        stdout, stderr = (Path(f"{name}.txt").read_text() for name in ("stdout", "stderr"))
        assert status in (None, ended), f"{ended}\n{stdout}{stderr}"
        return subprocess.CompletedProcess([], ended, stdout, stderr)

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.server.pid, signal.SIGKILL)
        self.server.communicate(timeout=60)
