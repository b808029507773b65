"""Names that a terminal, a spreadsheet or a parser would obey: in every output."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cmd_support import environment, executable
from test_exports import Pprof
from triton_proton import viewer
from triton_proton._message import warn

NAMES = [
    "</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>", '=HYPERLINK("http://evil","x")',
    "+1+cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "'quoted", "\x1b]0;owned\x07\x1b[31mred\x1b[0m",
    "\u202egnp.exe", "\u2066a\u200fb\u061c", "tab\tnl\nq\"q'", "\tindented", "\r=1",
    "semi;colon;fold", "\u2028line\u2029", "\x9b31m\x85", "%s%n%x", "\uff1d1+1", "a,b",
]
# Characters that are not printable (base/printable.h), except line ends.
OBEYED = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FORMULA = re.compile("[=+@\t\r\n\uff0b\uff0d\uff1d\uff20-]")


def write_profile(path: Path, names: list[str] = NAMES) -> Path:
    def node(name: str, *children: dict, **metrics: object) -> dict:
        frame = {"name": name, "type": "function"}
        return {"frame": frame, "children": list(children), "metrics": metrics}

    device = {"device_id": "0", "device_type": "CUDA"}
    kernels = [
        node(name, **{"time (ns)": 100 + i, "count": 1, name: i, "text (pty)": name, **device})
        for i, name in enumerate(names)
    ]
    root = node("ROOT", *[node(name, kernels[i]) for i, name in enumerate(names)])
    root["metrics"] = {"time (ns)": 0, "count": 0, **dict.fromkeys(names, 0), "text (pty)": ""}
    devices = {"CUDA": {"0": {"arch": names[8], "clock_rate": 1, "num_sms": 1, "name": names[9]}}}
    path.write_text(json.dumps([root, devices]))
    return path


def on_a_terminal(*arguments: object, status: int = 0, cwd: Path | None = None) -> str:
    """Standard output and error of proton-viewer on a terminal, without its line ends."""
    keep, end = pty.openpty()
    env = environment(TERM="dumb", COLUMNS="300", PROTON_PAGER="", PAGER="")
    command = [executable("proton-viewer"), *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=env, cwd=cwd
    )
    os.close(end)
    output = b""
    while True:
        try:
            part = os.read(keep, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(keep)
    assert process.wait(timeout=300) == status, output
    return output.replace(b"\r\n", b"\n").decode("utf-8")


def view(*arguments: object) -> str:
    command = [executable("proton-viewer"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8")


# ------------------------------------------------------------------ terminals


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--list"],
        ["--top"],
        ["--bottom-up"],
        ["--group", "device"],
        ["--print-sorted"],
        ["-m", "text (pty)"],
        ["-m", ",".join(["time/ns", "tab\tnl\nq\"q'", "\x1b]0;owned\x07\x1b[31mred\x1b[0m"])],
        ["--csv", "-m", "time/ns,text (pty)"],
        ["--json", "-m", "time/ns,text (pty)"],
        ["--diff", "@"],
        ["--diff", "@", "--csv"],
        ["--diff", "@", "--json"],
        ["--merge", "spread", "@"],
        ["--export", "csv"],
        ["--export", "folded"],
        ["--export", "speedscope"],
        ["--export", "hatchet"],
        ["--names", "raw", "-f", "function_line"],
    ],
)
def test_a_terminal_obeys_no_name(tmp_path, arguments):
    path = write_profile(tmp_path / "\x1b[31m\u202ex.hatchet")
    output = on_a_terminal(*[path if a == "@" else a for a in arguments], path)
    assert len(output) > 100
    assert not OBEYED.search(output), OBEYED.search(output)


@pytest.mark.parametrize(
    "arguments",
    [
        ["\x1b[31m.hatchet"],
        ["-m", "\x1b[31m", "@"],
        ["-i", "\x1b[31m(", "@"],
        ["-t", "\x1b[31m", "@"],
        ["--fail-if", "\x1b[31m", "@"],
        ["--fail-if", "\x1b[31m > 1", "@"],
        ["--color", "\x1b[31m", "@"],
        ["--\x1b[31m", "@"],
        ["-\x1b", "@"],
        ["--metrics\x1b[31m=1", "@"],
        ["-o", "\x1b[31m/x.csv", "@"],
        ["-o", "x.\x1b[31m", "@"],
        ["--export", "\x1b[31m", "@"],
        ["--diff", "\x1b[31m", "@"],
        ["--peaks", "\x1b[31m=1", "@"],
        ["--group", "\x9b31m\u202e", "@"],
    ],
)
def test_an_error_message_obeys_no_name(tmp_path, arguments):
    path = write_profile(tmp_path / "x.hatchet")
    words = [path if a == "@" else a for a in arguments]
    output = on_a_terminal(*words, status=2, cwd=tmp_path)
    assert "\\x1b" in output or "\\xc2\\x9b" in output
    assert not OBEYED.search(output), OBEYED.search(output)


def test_a_gate_message_obeys_no_name(tmp_path):
    path = write_profile(tmp_path / "x.hatchet")
    output = on_a_terminal("--fail-if", "time/ns > 1 in .", path, status=3)
    assert "\\x1b]0;owned" in output
    assert not OBEYED.search(output)


def test_bytes_that_are_not_utf_8_are_shown(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    command = [executable("proton-viewer"), os.fsencode(tmp_path) + b"/\xff\xfe"]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert b"\\xff\\xfe" in done.stderr and done.returncode == 2


def test_the_command_obeys_no_name(tmp_path):
    for words in (
        ["-n", "a\x1b[31m/b", "x.py"],
        ["\x1b[31m.py"],
        ["--", "\x1b[31m"],
        ["--\x1b[31m", "x.py"],
        ["-m", "\x1b[31m\u202e.x"],
        ["-d", "\x1b[31m", "x.py"],
        ["-b", "\x1b[31m", "x.py"],
    ):
        done = subprocess.run(
            [executable("proton"), *words], cwd=tmp_path, env=environment(),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
        )
        own = [line for line in done.stderr.decode().splitlines() if line.startswith("proton: ")]
        assert done.returncode != 0 and own, words
        assert not OBEYED.search("".join(own)), words


# ------------------------------------------------------------------ spreadsheets


def restored(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell


@pytest.mark.parametrize("arguments", [["--csv"], ["--export", "csv"], ["--top", "--csv"]])
def test_no_cell_of_csv_is_a_formula(tmp_path, arguments):
    path = write_profile(tmp_path / "x.hatchet")
    metrics = ["time/ns", *[name for name in NAMES if "," not in name]]
    if "--csv" in arguments:
        metrics.append("text (pty)")  # an export has numbers only
    output = view(*arguments, "-m", ",".join(metrics), path)
    rows = list(csv.reader(io.StringIO(output, newline="")))
    for row in rows:
        for cell in row:
            assert not FORMULA.match(cell) or re.fullmatch(r"-?[0-9.e+-]+", cell), cell
            for part in cell.split(";") if row[0] == cell else []:
                assert not FORMULA.match(part), cell
    column = rows[0].index("name" if "--export" in arguments else "frame")
    assert {restored(row[column]) for row in rows[1:]} >= set(NAMES)
    assert {restored(title).partition(" (inc)")[0] for title in rows[0]} >= set(metrics)
    if "text (pty)" in metrics and "--top" not in arguments:
        texts = {restored(row[rows[0].index("text (pty)")]) for row in rows[1:]}
        assert texts >= set(NAMES)


def test_numbers_of_csv_stay_numbers(tmp_path):
    old = write_profile(tmp_path / "old.hatchet", NAMES[:12])
    new = write_profile(tmp_path / "new.hatchet", NAMES[3:13])
    rows = list(csv.DictReader(io.StringIO(view("--csv", "--diff", old, "-m", "time/ns", new))))
    changes = [float(row["time/ns change"]) for row in rows if row["time/ns change"]]
    assert min(changes) < 0


# ------------------------------------------------------------------ other formats


def test_json_has_the_names(tmp_path):
    path = write_profile(tmp_path / "x.hatchet")
    for text in (view("--json", path), view("--export", "hatchet", path)):
        assert not OBEYED.search(text)
    rows = json.loads(view("--json", path))["rows"]
    assert {row["frame"] for row in rows} == {"ROOT", *NAMES}
    again = json.loads(view("--export", "hatchet", path))
    assert {child["frame"]["name"] for child in again[0]["children"]} == set(NAMES)
    speedscope = json.loads(view("--export", "speedscope", path))
    assert {frame["name"] for frame in speedscope["shared"]["frames"]} >= set(NAMES)


def test_folded_stacks_are_lines_of_two_names(tmp_path):
    path = write_profile(tmp_path / "x.hatchet")
    lines = view("--export", "folded", path).splitlines()  # also at U+0085 and U+2028
    assert len(lines) == len(NAMES)
    for line in lines:
        stack, _, weight = line.rpartition(" ")
        outer, inner = stack.split(";")
        assert outer == inner and weight.isdigit()


def test_pprof_and_traces_have_the_names(tmp_path):
    path = write_profile(tmp_path / "x.hatchet")
    view("-o", tmp_path / "x.pb.gz", path)
    assert set(Pprof((tmp_path / "x.pb.gz").read_bytes()).strings) >= set(NAMES)
    script = tmp_path / "t.py"
    script.write_text(
        "import json, sys\nimport triton_proton as p\n"
        "p.start('t', backend='host', data='trace')\n"
        "for name in json.loads(sys.argv[1]):\n"
        "    with p.scope(name, {'v': 1}): pass\n"
        "p.finalize()\n"
    )
    subprocess.run(
        [sys.executable, str(script), json.dumps(NAMES)], cwd=tmp_path, check=True, timeout=300
    )
    trace = (tmp_path / "t.chrome_trace").read_text()
    assert not OBEYED.search(trace)
    events = [event for event in json.loads(trace)["traceEvents"] if event["ph"] != "M"]
    assert {event["name"] for event in events} >= {f"{name}: <v, 1>" for name in NAMES}
    assert {event["args"]["call_stack"][-1] for event in events} >= set(NAMES)


# ------------------------------------------------------------------ Python


def test_notes_of_python_obey_no_name(capsys, monkeypatch):
    monkeypatch.setenv("PROTON_QUIET", "0")
    for name in NAMES:
        warn(f"a kernel: {name}\udcff\ud800")
    printed = capsys.readouterr().err
    assert not OBEYED.search(printed)
    assert "\\x1b]0;owned\\x07" in printed and "\\xff\\xed\\xa0\\x80" in printed
    assert printed.count("\n") == len(NAMES)


def test_a_tree_of_hatchet_obeys_no_name(tmp_path, capsys):
    hatchet = pytest.importorskip("hatchet")
    frame = hatchet.GraphFrame.from_literal(
        [{"frame": {"name": NAMES[8], "type": "function"}, "metrics": {"time": 1.0}}]
    )
    viewer.print_tree(frame, ["time"], print_sorted=True)
    assert "\\x1b]0;owned" in capsys.readouterr().out
    assert frame.dataframe["name"].tolist() == [NAMES[8]]
