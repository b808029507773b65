"""proton-viewer -i finds what Python's re.search finds, for the notation both understand."""

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from cmd_support import executable

ATOMS = (
    r"a b 1 _ x{2} . \d \w \s \D \W \S \. \( - ] < > ^ $ \A \Z (a|b) (?:ab) [ab] [^ab] [a-c] [\d_]"
    r" [\w:] [^\d\s] [\]a] []a] [^]a] [-a] [a-] [\-\^] [^\^] [\\] [.*] [[a]"
).split()
QUANTIFIERS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}?"]
LETTERS = r"ab1_ -^].:(<>\x[*"


def make_pattern(random_: random.Random) -> str:
    while True:
        parts = [
            random_.choice(ATOMS) + random_.choice(QUANTIFIERS)
            for _ in range(random_.randint(1, 5))
        ]
        pattern = random_.choice(["", "", "", "(?i)"]) + "".join(parts)
        try:
            re.compile(pattern, re.ASCII)
        except re.error:
            continue
        return pattern


def make_profile(path: Path, names: list[str]) -> None:
    metrics = {"count": 1, "time (ns)": 1, "device_id": "0", "device_type": "CPU"}
    device = dict.fromkeys(("bus_width", "clock_rate", "memory_clock_rate", "num_sms"), 0)
    children = [
        {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": []}
        for name in names
    ]
    root = {
        "frame": {"name": "ROOT", "type": "function"},
        "metrics": {"count": 0, "time (ns)": 0},
        "children": children,
    }
    path.write_text(json.dumps([root, {"CPU": {"0": {"arch": "x", **device}}}]))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of re, about "[[a]"
@pytest.mark.parametrize("seed", range(4))
def test_include_finds_the_same_as_python(seed, tmp_path):
    random_ = random.Random(seed)
    names = {"".join(random_.choices(LETTERS, k=random_.randint(1, 8))) for _ in range(200)}
    path = tmp_path / "names.hatchet"
    make_profile(path, sorted(names))
    for _ in range(50):
        pattern = make_pattern(random_)
        command = [executable("proton-viewer"), "--json", "-m", "count", "-i", pattern, str(path)]
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode == 0, (pattern, done.stderr)
        found = {row["frame"] for row in json.loads(done.stdout)["rows"][1:]}
        assert found == {name for name in names if re.search(pattern, name, re.ASCII)}, pattern
