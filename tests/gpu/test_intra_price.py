"""The price of automatic scopes as a profile states it, against times of both codes."""

import json
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "the budget was set for it")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton_proton as proton  # noqa: E402
from triton_proton import _closed_loop  # noqa: E402

sys.path.append(str(Path(__file__).parents[2] / "bench"))
import intra_auto_cases  # noqa: E402

LAUNCHES_QUIET = 300  # without a set of scopes being compiled: all are decided
LAUNCHES_MAX = 10000


def price_of(path: Path, name: str) -> dict:
    queue = list(json.loads(path.read_text())[0]["children"])
    while queue:
        node = queue.pop()
        if node["frame"]["name"] == name:
            return node["metrics"]
        queue += node["children"]
    raise AssertionError(f"no kernel {name}")


def typical_ms(launch) -> float:
    return triton.testing.do_bench(launch, warmup=20, rep=200, return_mode="median")


@pytest.mark.parametrize("make", ["of_rows", "of_matrices", "of_attention"])
def test_the_stated_price_is_that_of_both_codes_and_results_are_equal(make, tmp_path):
    case = getattr(intra_auto_cases, make)("cuda")[0]
    case.result.zero_()
    case.launch()
    torch.cuda.synchronize()
    expected = case.result.clone()
    plain = typical_ms(case.launch)
    proton.start(str(tmp_path / "a"), backend="instrumentation", mode="default:auto=all")
    last = 0
    for number in range(LAUNCHES_MAX):
        if number - last > LAUNCHES_QUIET:
            break
        if number % 10 == 0:
            case.result.zero_()
        case.launch()
        if number % 10 == 0:
            torch.cuda.synchronize()
            assert torch.equal(case.result, expected)  # with every variant
            worker = _closed_loop._worker
            if worker is not None:
                worker.join(60)
                last = number
    print(f"{number} launches")
    measured = typical_ms(case.launch) / plain
    proton.finalize()
    metrics = price_of(tmp_path / "a.hatchet", case.kernel.__name__)
    assert metrics["scopes_price"].startswith("measured"), metrics["scopes_price"]
    # With the session, times include events around some launches and copies of their records:
    # up to 2 us, which is 5 % of a short kernel.
    print(f"plain {plain:.4f} ms, measured {measured:.3f}, stated {metrics['scopes_ratio']:.3f}")
    assert measured == pytest.approx(metrics["scopes_ratio"], abs=0.03 + 2e-3 / plain)
    plain_again = typical_ms(case.launch)
    assert plain_again == pytest.approx(plain, rel=0.05)
