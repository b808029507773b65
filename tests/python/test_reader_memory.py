"""No input takes more memory than 64 times its size and a constant, in any command and mode."""

import re
import struct
import sys
from pathlib import Path

import packed_files as files
import pytest
from cmd_support import executable
from support import run_command

MEGABYTE = 1 << 20

# Linux counts the memory of a program's parent as the program's: so a small parent starts it.
MEASURE = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def measure(program: str, *arguments: object) -> tuple[int, str, int]:
    """Runs a command: its status, its messages, and its largest resident set in bytes."""
    command = [executable(program), *map(str, arguments)]
    done = run_command([sys.executable, "-S", "-c", MEASURE, *command])
    status, peak = map(int, done.stdout.split())
    return status, done.stderr, peak


def check(program: str, *arguments: object) -> tuple[int, str]:
    """Runs it with these arguments, and compares its memory with the size of its input files."""
    inputs = [path for path in arguments if isinstance(path, Path) and path.exists()]
    status, text, peak = measure(program, *arguments)
    size = sum(path.stat().st_size for path in inputs)
    limit = 64 * size + 64 * MEGABYTE
    shown = f"{program} {' '.join(map(str, arguments))}: {text}"
    assert status in (0, 1, 2, 3), shown
    assert peak <= limit, f"{peak / MEGABYTE:.0f} MB, {peak / size:.0f} x {size}; {shown}"
    return status, text


EXPORTS = (
    "html", "hatchet", "hatchet_msgpack", "pprof", "speedscope", "folded", "csv", "chrome_trace",
    "perfetto", "proton",
)  # fmt: skip


def check_all(path: Path, tmp_path: Path) -> list[str]:
    """Every command and mode; the messages."""
    out = str(tmp_path / "out")
    views = [
        (), ("--top",), ("--bottom-up", "-d", "9"), ("--group", "file"), ("--json",), ("--csv",),
        ("--list",), ("--source",), ("--warps",), ("--brief",), ("--ranks",), ("--ranks", "--json"),
        ("--diff", path), ("--ranks", "--diff", path), ("--merge", "spread", path), (path,),
        ("--fail-if", "time/ms > 1"), ("-o", out + ".html", "--export", "html", "--diff", path),
    ]  # fmt: skip
    views += [("-o", f"{out}.{form}", "--export", form) for form in EXPORTS]
    texts = [check("proton-viewer", "--allow-partial", *view, path)[1] for view in views]
    for paths in ([path], [path, path]):
        texts.append(check("proton-merge", "--allow-partial", "-o", out, *paths)[1])
    return texts


# ---------------------------------------------------------------------- packed tables


def sample() -> tuple[dict[str, files.Table], list[int]]:
    """Tables of a root and the ids of four names."""
    names, ids = files.strings([b"k", b"m", b"CUDA", b"90"])
    tables = {
        "strings": names,
        "frames": files.raw("frames", struct.pack("<8I", 0, 0, 0, 0, 3, ids[1], 0, 0)),
        "nodes": files.raw("nodes", struct.pack("<12I", *[0] * 6, 0, 1, 0, 0, 0, 0)),
        "devices": files.raw("devices", struct.pack("<4I4Q", ids[3], 0, ids[4], 0, 1, 1, 1, 1)),
        "epochs": files.raw("epochs", struct.pack("<IIQQ", 0, 1, 1, 2)),
    }
    return tables, ids


FEW_BYTES = 8000  # for a table of zeros


@pytest.mark.parametrize("name", files.ROW_BYTES)
def test_tables_of_zeros(tmp_path, name):
    """As many rows as fit into a few KB: up to 8 million bytes."""
    tables, _ = sample()
    if name == "strings":
        text = b"x" * 255
        tables[name], _ = files.strings([text] * FEW_BYTES)
    else:
        rows = FEW_BYTES * files.RUN * 8 // files.ROW_BYTES[name] // 2
        tables[name] = files.columns(name, rows, "8", [files.ZERO])
    path = tmp_path / "zeros.proton"
    path.write_bytes(files.assemble(tables))
    check_few(path, tmp_path)


def check_few(path: Path, tmp_path: Path) -> None:
    check("proton-viewer", "--allow-partial", path)
    check("proton-viewer", "--allow-partial", "--ranks", path)
    check("proton-viewer", "--allow-partial", "--export", "html", "-o", str(tmp_path / "o"), path)
    check("proton-viewer", "--allow-partial", "--diff", path, path)
    check("proton-merge", "--allow-partial", "-o", str(tmp_path / "o"), path, path)


@pytest.mark.parametrize("name", ["histograms", "vectors", "durations", "spreads", "events", "pcs"])
def test_large_tables_of_zeros(tmp_path, name):
    """140 KB of runs of zeros stands for 128 MB of rows."""
    tables, _ = sample()
    rows = (128 << 20) // files.ROW_BYTES[name]
    tables[name] = files.columns(name, rows, "8", [files.ZERO])
    path = tmp_path / "zeros.proton"
    path.write_bytes(files.assemble(tables))
    status, text = check("proton-viewer", path)
    assert status == 2 and text.count("\n") == 1
    assert "bytes would take more than" in text and text.endswith("the limit for its size\n")
    check_few(path, tmp_path)


def nodes_of(count: int, *, many_metrics: bool = False) -> dict[str, files.Table]:
    """Nodes that each have a frame, a value, and a kernel with a histogram and a configuration."""
    tables, ids = sample()
    zero, same, once = files.ZERO, files.Column(files.DISTANCE), files.constant
    made = {
        "frames": ("4444", [once(2), once(ids[1]), once(ids[1]), same]),
        "nodes": ("444444", [zero, same, zero, zero, same, same]),
        "values": ("44448", [zero, same if many_metrics else zero, zero, zero, once(5)]),
        "kernels": ("44448888", [zero, zero, zero, zero, once(4), *[once(100)] * 3]),
        "histograms": ("4", [once(1)]),
        "configs": ("88444444444444", [once(1), once(9), same, same, zero, zero, *[once(1)] * 8]),
    }
    for name, (layout, parts) in made.items():
        rows = count // 4 if name in ("histograms", "configs") else count
        tables[name] = files.columns(name, rows, layout, parts)
    tables["metrics"] = files.raw("metrics", struct.pack("<IHH", ids[2], 1, 0))
    return tables


@pytest.mark.parametrize("count", [6000, 14000, 400000])
def test_nodes_with_everything(tmp_path, count):
    """Few are read, and take what they may; many are refused."""
    path = tmp_path / "nodes.proton"
    path.write_bytes(files.assemble(nodes_of(count)))
    texts = check_all(path, tmp_path)
    if count == 6000:
        assert not any("memory" in text for text in texts), texts
    elif count == 400000:
        assert re.search(r"would take more than \d+ MB of memory, the limit for its size", texts[0])


def test_a_million_names_are_read_and_merged(tmp_path):
    """The file of a program with a million scopes: four bytes per scope, 250 in memory."""
    count = 1_000_000
    tables, _ = sample()
    tables["strings"], ids = files.strings(b"s%07d" % i for i in range(count - 1))
    rise = files.Column(files.DELTA, ids[1] - 2, each=2)
    zero, same = files.ZERO, files.Column(files.DISTANCE)
    tables["frames"] = files.columns("frames", count, "4444", [files.constant(1), rise, zero, zero])
    tables["nodes"] = files.columns("nodes", count, "444444", [zero, same, zero, zero, zero, zero])
    path = tmp_path / "names.proton"
    path.write_bytes(files.assemble(tables))
    assert path.stat().st_size < 5 * count
    for view in ((), ("--list",), ("--ranks", "--json")):
        _, text = check("proton-viewer", *view, path)
        assert "memory" not in text
    status, text = check("proton-merge", "-o", str(tmp_path / "out.proton"), path)
    assert status == 0, text


# ---------------------------------------------------------------------- nested formats


def msgpack_nodes(count: int) -> bytes:
    """Nodes of one byte each: empty maps."""
    root = b"\x81\xa8children\xdd" + struct.pack(">I", count) + b"\x80" * count
    return b"\x92" + root + b"\x80"


def json_nodes(count: int) -> bytes:
    return b'[{"frame":{"name":"ROOT"},"children":[' + b"{}," * count + b"{}]},{}]"


def json_vector(count: int) -> bytes:
    return b'[{"frame":{"name":"ROOT"},"metrics":{"v":[' + b"0," * count + b'0]},"children":[]},{}]'


@pytest.mark.parametrize("make", [msgpack_nodes, json_nodes, json_vector])
def test_short_elements(tmp_path, make):
    for count in (20000, 1_000_000):
        path = tmp_path / "short.hatchet"
        path.write_bytes(make(count))
        check_all(path, tmp_path)


# ---------------------------------------------------------------------- jobs


def test_a_node_that_one_rank_has_gets_no_more_than_its_bytes_allow(tmp_path):
    """9 bytes per node are enough for its profile, but not for its statistics."""
    count = 500_000
    tables = nodes_of(count)
    del tables["histograms"], tables["configs"], tables["kernels"]
    values = (struct.pack("<4IQ", 0, 0, 0, 0, i << 40 | 2**61) for i in range(count))
    tables["values"] = files.packed("values", b"".join(values), "44448")
    zero, same = files.ZERO, files.Column(files.DISTANCE)
    parts = [zero, same, zero, zero, same, zero]
    tables["nodes"] = files.columns("nodes", count, "444444", parts)
    path = tmp_path / "rank0.proton"
    path.write_bytes(files.assemble(tables))
    status, text = check("proton-viewer", path)
    assert status == 0, text
    output = str(tmp_path / "out.proton")
    status, text = check("proton-merge", "-o", output, path)
    assert status == 2 and "their statistics would take more than" in text
    status, text = check("proton-merge", "-o", output, "--max-nodes", "20000", path)
    assert status == 0, text


def rank_file(path: Path, tables: dict[str, files.Table], rank: int, world: int) -> Path:
    texts = [b"k", b"m", b"CUDA", b"90", b"rank", b"%d" % rank, b"world_size", b"%d" % world]
    tables = dict(tables)
    tables["strings"], ids = files.strings(texts)
    tables["info"] = files.raw("info", struct.pack("<4I", *ids[5:9]))
    path.write_bytes(files.assemble(tables))
    return path


def test_few_ranks_of_a_large_world_take_no_table_of_it(tmp_path):
    tables = nodes_of(300)
    rise = files.Column(files.DISTANCE)
    parts = [*[files.ZERO] * 4, files.constant(1), rise, rise, rise]
    tables["kernels"] = files.columns("kernels", 300, "44448888", parts)
    paths = [rank_file(tmp_path / "rank0.proton", tables, 0, 1 << 20)]
    parts[5] = files.constant(1)
    tables["kernels"] = files.columns("kernels", 300, "44448888", parts)
    paths.append(rank_file(tmp_path / "rank1.proton", tables, 1, 1 << 20))
    output = tmp_path / "out.proton"
    status, text = check("proton-merge", "--allow-partial", "-o", str(output), *paths)
    assert status == 0 and "merged 2 of 100000 ranks" in text
    for view in ((), ("--ranks",), ("--ranks", "--json"), ("--ranks", "-n", "3")):
        status, text = check("proton-viewer", "--allow-partial", *view, output)
        assert status in (0, 3), text
        check("proton-viewer", "--allow-partial", *view, *paths)
    html = str(tmp_path / "out.html")
    status, text = check("proton-viewer", "--allow-partial", "-o", html, output)
    assert status == 0, text


def test_ranks_do_not_wait_for_others_in_proportion_to_the_largest(tmp_path):
    paths = [rank_file(tmp_path / "rank0.proton", nodes_of(13000), 0, 64)]
    small = nodes_of(4)
    paths += [rank_file(tmp_path / f"rank{i}.proton", small, i, 64) for i in range(1, 64)]
    output = str(tmp_path / "out.proton")
    status, text = check("proton-merge", "--allow-partial", "-o", output, *paths)
    assert status == 0 and "merged 64 ranks" in text
    check("proton-viewer", "--ranks", *paths)


# ---------------------------------------------------------------------- columns


def columns_of(path: Path, count: int, *, is_chain: bool) -> Path:
    """A merged job of two ranks in which each node has a column; a chain or a star."""
    tables, ids = sample()
    zero, once, ranks = files.ZERO, files.constant, range(2)
    names = [once(2), once(ids[1]), once(ids[1]), files.Column(files.DISTANCE)]
    tables["frames"] = files.columns("frames", count, "4444", names)
    nodes = [(max(i - 1, 0) * is_chain, i, 0, 0, 0, 0) for i in range(count)]
    rank = [(r, 1, 0, 0, 0, 1, 0, 2, 5, 100, 3, 0, 0, 0, r, 1) for r in ranks]
    spread = [(2, 0, 1, 200 + i, 99, 101 + i, 9) for i in range(count)]
    made = {
        "nodes": ("444444", [struct.pack("<6I", *row) for row in nodes]),
        "ranks": ("4444444488884444", [struct.pack("<8I4Q4I", *row) for row in rank]),
        "spreads": (
            "4",
            [struct.pack("<4I4Q160xQ56x", i, *row, row[5]) for i, row in enumerate(spread)][1:],
        ),
    }
    for name, (layout, rows) in made.items():
        tables[name] = files.packed(name, b"".join(rows), layout)
    tables["columns"] = files.columns("columns", count - 1, "44", [files.Column(files.NEXT), zero])
    cells = [99 + i for i in range(2 * (count - 1))]
    tables["cells"] = files.packed("cells", struct.pack(f"<{len(cells)}Q", *cells), "8")
    path.write_bytes(files.assemble(tables))
    return path


@pytest.mark.parametrize("is_chain", [False, True], ids=["star", "chain"])
def test_a_report_grows_with_its_columns_and_no_faster(tmp_path, is_chain):
    sizes = []
    for count in (5000, 10000):
        path = columns_of(tmp_path / f"{count}.proton", count, is_chain=is_chain)
        html = tmp_path / f"{count}.html"
        status, text = check("proton-viewer", "--export", "html", "-o", str(html), path)
        assert status == 1, text  # crafted files are damaged
        sizes.append(html.stat().st_size)
    assert sizes[1] < 2.5 * sizes[0]


def wide(path: Path, count: int) -> Path:
    """Each node has its own metric: few values among count squared."""
    tables, ids = sample()
    tables["strings"], names = files.strings([b"k", *(b"m%d" % i for i in range(count))])
    del tables["devices"]
    tables["metrics"] = files.raw("metrics", struct.pack(f"<{2 * count}I", *[
        word for name in names[2:] for word in (name, 1)
    ]))  # fmt: skip
    zero, same, once = files.ZERO, files.Column(files.DISTANCE), files.constant
    made = {
        "frames": ("4444", [once(2), once(ids[1]), once(ids[1]), same]),
        "nodes": ("444444", [zero, same, zero, zero, same, zero]),
        "values": ("44448", [zero, same, zero, zero, once(5)]),
    }
    for name, (layout, parts) in made.items():
        tables[name] = files.columns(name, count, layout, parts)
    path.write_bytes(files.assemble(tables))
    return path


@pytest.mark.parametrize("chosen", [20, 2400])
def test_many_metrics_of_many_nodes_take_no_matrix(tmp_path, chosen):
    """16 KB for 2500 metrics of 2500 nodes: as columns 100 MB, in a comparison four times that."""
    path = wide(tmp_path / "wide.proton", 2500)
    metrics = ",".join(f"m{i}" for i in range(1, 1 + chosen))
    text = "select fewer metrics (-m)"
    for view in ((), ("--json",), ("--csv",), ("-t", "m1=1"), ("--merge", "spread", path)):
        status, error = check("proton-viewer", *view, "-m", metrics, path)
        assert (status, text in error) == ((0, False) if chosen == 20 else (2, True)), error
    job = tmp_path / "wide.ranks"
    job.mkdir()
    for rank in range(2):
        wide(job / f"rank00000{rank}.proton", 2500)
    for view in (("--diff", path, path), ("--ranks", job), ("--ranks", "--diff", job, job)):
        _, error = check("proton-viewer", "-m", metrics, *view)
        assert (text in error) == (chosen != 20), error
    for form in ("html", "csv", "pprof", "speedscope"):
        output = str(tmp_path / "out")
        status, error = check("proton-viewer", "--export", form, "-m", metrics, "-o", output, path)
        assert status == 0, error


# ---------------------------------------------------------------------- waiting in collectives


def far_durations(path: Path, count: int, first: int = 0) -> Path:
    """`count` collectives of which only occurrences far from the first are known."""
    names, ids = files.strings([b"CUDA", b"90", *(b"s%d" % i for i in range(count))])
    rows = {
        "frames": bytes(16) + b"".join(struct.pack("<4I", 3, i, 0, 0) for i in ids[3:]),
        "nodes": bytes(24)
        + b"".join(struct.pack("<6I", 0, i, 0, 0, 0, i) for i in range(1, count + 1)),
        "kernels": bytes(48) + struct.pack("<4I4Q", 0, 0, 0, 0, 2, 1000, 400, 600) * count,
        "durations": bytes(128)
        + b"".join(
            struct.pack("<7I50H", i, 0, 0, 1, 1, 0, first or 16382, 500 + i % 7, *[0] * 49)
            for i in range(1, count + 1)
        ),
    }
    layouts = {"kernels": "44448888"}
    tables = {name: files.packed(name, row, layouts.get(name, "4")) for name, row in rows.items()}
    tables["strings"] = names
    tables["devices"] = files.raw("devices", struct.pack("<4I4Q", ids[1], 0, ids[2], 0, 1, 1, 1, 1))
    tables["epochs"] = files.raw("epochs", struct.pack("<IIQQ", 0, 1, 1, 2))
    path.write_bytes(files.assemble(tables))
    return path


@pytest.mark.parametrize("count", [2000, 10000])
def test_collectives_far_from_the_first_take_no_memory_for_those_before(tmp_path, count):
    paths = [far_durations(tmp_path / f"rank{i}.proton", count) for i in range(2)]
    output = tmp_path / "out.proton"
    status, text = check("proton-merge", "--allow-partial", "-o", str(output), *paths)
    assert status == 0 and "merged 2 ranks" in text
    status, text = check("proton-viewer", "--ranks", *paths)
    assert status == 0, text
    check("proton-viewer", "--ranks", "--json", output)
