"""Sums instead of records on a GPU, requested and by default.

Counts are trip counts, and times are those of records.

    python -m pytest -s tests/gpu/test_intra_tree_sums.py

Needs the installed package, torch with CUDA and triton. Takes less than a minute.
"""

import json

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "its kernels contain PTX")

import triton
import triton.language as tl
from test_intra import SIZE, matmul, nodes_of, session, tensors  # noqa: F401
from test_intra_calibrate import FEW, MANY, empties

import triton_proton as proton
import triton_proton.language as pl

SUMS, RECORDS = "default:tree=sums", "default:tree=records"
DEFAULT = "default"
WARPS = 4


@triton.jit
def turns(x, out, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    with pl.scope("all"):
        for i in range(count):
            with pl.scope("turn"):
                total += tl.load(x + (i % 64) * BLOCK + at)
                with pl.scope("inner"):
                    total = tl.exp(total)
    tl.store(out + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FLAT: tl.constexpr
):
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLAT):
        with pl.scope("tile"):
            rows = tile % tl.cdiv(M, BM) * BM + tl.arange(0, BM)
            columns = tile // tl.cdiv(M, BM) * BN + tl.arange(0, BN)
            inner = tl.arange(0, BK)
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                x = tl.load(a + rows[:, None] * K + k + inner[None, :])
                y = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
                with pl.scope("dot"):
                    total = tl.dot(x, y, total)
            with pl.scope("store"):
                tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def grouped(a, b, c, sizes, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Matrices with different numbers of rows, one after the other; a CTA takes every n-th tile."""
    first = 0
    start = 0
    for group in range(groups):
        M = tl.load(sizes + group)
        tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
        with pl.scope("group"):
            tile = tl.program_id(0)
            while tile < first + tiles:
                if tile >= first:
                    with pl.scope("tile"):
                        at = tile - first
                        rows = at % tl.cdiv(M, BM) * BM + tl.arange(0, BM)
                        columns = at // tl.cdiv(M, BM) * BN + tl.arange(0, BN)
                        inner = tl.arange(0, BK)
                        mask = rows[:, None] < M
                        total = tl.zeros((BM, BN), tl.float32)
                        for k in range(0, K, BK):
                            with pl.scope("step"):
                                x = tl.load(
                                    a + (start + rows[:, None]) * K + k + inner[None, :], mask=mask
                                )
                                y = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
                                total = tl.dot(x, y, total)
                        at = (start + rows[:, None]) * N + columns[None, :]
                        tl.store(c + at, total.to(tl.float16), mask=mask)
                tile += tl.num_programs(0)
        first += tiles
        start += M


def profile(session, mode: str, launch) -> dict[str, dict]:  # noqa: F811
    """The nodes below the kernel, by their last name."""
    session(mode=mode)
    launch()
    torch.cuda.synchronize()
    proton.finalize()
    nodes = nodes_of()
    return {path.rpartition("/")[2]: node for path, node in nodes.items() if "cycles" in node}


def path_of(name: str) -> str:
    (path,) = (path for path in nodes_of() if path.rpartition("/")[2] == name)
    return path


def lost(name: str = "run.hatchet") -> bool:
    with open(name, encoding="utf-8") as file:
        return "partial_executions" in json.dumps(json.load(file))


@pytest.mark.parametrize("buffer", ["shared", "global"])
@pytest.mark.parametrize("tree", [SUMS, DEFAULT])
def test_a_million_executions(session, capsys, buffer, tree):  # noqa: F811
    count, ctas = 1_000_000, 4
    x = torch.zeros(64 * 128, device="cuda")
    out = torch.empty(ctas * 128, device="cuda")
    mode = f"{tree}:buffer_type={buffer}"
    found = profile(
        session, mode, lambda: turns[(ctas,)](x, out, count, BLOCK=128, num_warps=WARPS)
    )
    assert found["turn"]["executions"] == found["inner"]["executions"] == count * ctas * WARPS
    assert found["all"]["executions"] == ctas * WARPS
    assert found["inner"]["cycles"] < found["turn"]["cycles"] < found["all"]["cycles"]
    for scope in ("turn", "inner", "all"):
        node = found[scope]
        assert 0 < node["min_cycles"] <= node["mean_cycles"] <= node["max_cycles"]
    assert found["turn"]["min_cycles"] > found["inner"]["min_cycles"]
    assert found["all"]["min_cycles"] > count * found["turn"]["min_cycles"]
    assert path_of("inner").endswith("turns/all/turn/inner") and not lost()
    with capsys.disabled():
        print(f"\n{found['turn']['mean_cycles']:.1f} cycles a turn, "
              f"{found['all']['cycles'] / found['turn']['executions']:.1f} with all around")


@pytest.mark.parametrize("is_flat", [False, True], ids=["nested", "flat"])
@pytest.mark.parametrize("mode", [SUMS, DEFAULT])
def test_a_persistent_matmul(session, is_flat, mode):  # noqa: F811
    a, b, c = tensors()
    block, step, ctas = 128, 64, 100

    def launch():
        persistent[(ctas,)](
            a, b, c, SIZE, SIZE, SIZE, BM=block, BN=block, BK=step, FLAT=is_flat, num_warps=8
        )

    found = profile(session, mode, launch)
    torch.testing.assert_close(c, a @ b, atol=0.3, rtol=0.02)
    tiles = (SIZE // block) ** 2
    assert found["tile"]["executions"] == tiles * 8
    assert found["store"]["executions"] == tiles * 8
    assert found["dot"]["executions"] == tiles * (SIZE // step) * 8
    assert path_of("dot").endswith("tile/dot") and path_of("store").endswith("tile/store")
    assert not lost()
    assert found["dot"]["cycles"] < found["tile"]["cycles"]


@pytest.mark.parametrize("mode", [SUMS, DEFAULT])
def test_a_grouped_matmul(session, mode):  # noqa: F811
    rows = [512, 128, 1000, 64, 2048]
    K, N, block, step, ctas = 1024, 512, 64, 32, 37
    sizes = torch.tensor(rows, device="cuda", dtype=torch.int32)
    a = torch.randn(sum(rows), K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16)
    c = torch.empty(sum(rows), N, device="cuda", dtype=torch.float16)

    def launch():
        grouped[(ctas,)](
            a, b, c, sizes, len(rows), N, K, BM=block, BN=block, BK=step, num_warps=WARPS
        )

    found = profile(session, mode, launch)
    torch.testing.assert_close(c, a @ b, atol=0.3, rtol=0.02)
    tiles = sum(-(-size // block) for size in rows) * (N // block)
    assert found["group"]["executions"] == len(rows) * ctas * WARPS
    assert found["tile"]["executions"] == tiles * WARPS
    assert found["step"]["executions"] == tiles * (K // step) * WARPS
    assert path_of("step").endswith("group/tile/step") and not lost()


def test_times_are_those_of_records(session, capsys):  # noqa: F811
    """Where records lose nothing, and a scope is long enough for the costs not to matter."""
    a = torch.randn(SIZE // 2, SIZE, device="cuda", dtype=torch.float16)
    b, c = torch.randn_like(a).T.contiguous(), torch.empty_like(a[:, : SIZE // 2])
    # 64 CTAs: one per multiprocessor, though more would fit with sums than with records.
    grid = (SIZE // 2 // 128, SIZE // 2 // 128)
    found: dict[str, dict] = {}

    def launch():
        for _ in range(5):
            matmul[grid](
                a, b, c, SIZE // 2, SIZE // 2, SIZE, BM=128, BN=128, BK=64, num_stages=3,
                num_warps=8,
            )  # fmt: skip

    for mode in (RECORDS, SUMS):
        launch()  # compiles
        more = ":buffer_size=32768" if mode == RECORDS else ""
        found[mode] = profile(session, mode + more, launch)
    with capsys.disabled():
        for name, node in found[SUMS].items():
            if "executions" not in node:
                continue
            records = found[RECORDS][name]
            print(f"\n{name}: {node['executions']} executions, {node['mean_cycles']:.1f} cycles; "
                  f"records {records['executions']}, {records['mean_cycles']:.1f}", end="")
            assert node["executions"] == records["executions"]
            if "min_cycles" in node:  # they cost nothing on this GPU
                print(f"; {node['min_cycles']} to {node['max_cycles']}, records "
                      f"{records['min_cycles']} to {records['max_cycles']}", end="")
                assert node["min_cycles"] <= node["mean_cycles"] <= node["max_cycles"]
        print()
    total = {mode: sum(found[mode][name]["cycles"] for name in ("load", "dot")) for mode in found}
    assert total[SUMS] == pytest.approx(total[RECORDS], rel=0.15)


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "touching"])
def test_what_an_execution_costs(session, capsys, apart):  # noqa: F811
    """Prints how much an empty scope lengthens the one around it, in one warp."""
    out = torch.zeros(2, device="cuda", dtype=torch.int32)
    lines = []
    for mode in (RECORDS, SUMS, f"{SUMS}:optimizations=time_shift"):
        lengths = {}
        for count in (FEW, MANY):

            def launch():
                for _ in range(30):
                    empties[(1,)](out, COUNT=count, APART=apart, num_warps=1)

            found = profile(session, mode, launch)
            assert found["empty"]["executions"] == 30 * count
            lengths[count] = found["outer"]["mean_cycles"]
        cost = (lengths[MANY] - lengths[FEW]) / (MANY - FEW)
        lines.append(f"{mode}: {cost:.2f} cycles, empty {found['empty']['mean_cycles']:.2f}")
    with capsys.disabled():
        print("\n" + "\n".join(lines))


def test_the_price_of_a_long_loop(session, capsys):  # noqa: F811
    """Prints it: without scopes, with records, with sums."""
    x = torch.zeros(64 * 128, device="cuda")
    out = torch.empty(132 * 4 * 128, device="cuda")

    def time_of() -> float:
        """Milliseconds of a launch, of eight that wait for the device."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(12):
            turns[(132 * 4,)](x, out, 2000, BLOCK=128, num_warps=WARPS)
        torch.cuda.synchronize()
        torch.cuda._sleep(40_000_000)
        begin.record()
        for _ in range(8):
            turns[(132 * 4,)](x, out, 2000, BLOCK=128, num_warps=WARPS)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 8

    plain = time_of()
    times: dict[str, list[float]] = {RECORDS: [], SUMS: []}
    for mode in (RECORDS, SUMS, RECORDS, SUMS):
        session(mode=mode)
        times[mode].append(time_of())
        proton.finalize()
    with capsys.disabled():
        print(f"\n{plain:.3f} ms plain, {times[RECORDS]} with records, {times[SUMS]} with sums")
    assert min(times[SUMS]) < min(times[RECORDS]) * 1.1
