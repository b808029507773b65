"""bench/explain.py on the fakes: planted causes of a change, and the sentences about them."""

import json
import sys
from pathlib import Path

from built import BUILD
from cmd_support import environment
from support import run_command

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "explain.py"


def test_each_cause_of_a_change_is_named(tmp_path: Path) -> None:
    words = ["--fake", "--pairs", "3", "--trials", "1", "--keep", tmp_path / "kept"]
    command = [sys.executable, SCRIPT, *words, "--build", BUILD]
    done = run_command(command, cwd=tmp_path, env=environment())
    rows = [line for line in done.stdout.splitlines() if line.startswith("cause named: ")]
    assert len(rows) == 10 and all("ours 1.0 " in row for row in rows), done.stdout
    assert "MISSED" not in done.stdout
    kept = [json.loads(line) for line in (tmp_path / "kept" / "explain.jsonl").open()]
    quiet, loud = kept[:3], kept[3:6]
    assert all(one["why"].startswith("noise") and not one["alarm"] for one in quiet), quiet
    assert all(one["alarm"] and one["low/%"] > 0 for one in loud), loud
