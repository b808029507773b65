"""Automatic scopes within a budget, on a GPU.

    python -m pytest tests/gpu/test_intra_budget.py

Needs the installed package, torch with CUDA and triton. bench/intra_auto.py measures
their cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "the cost of records was measured there")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import triton_proton as proton  # noqa: E402

sys.path.append(str(Path(__file__).parents[2] / "bench"))
import intra_auto_cases  # noqa: E402


def kernel_of(path: Path, name: str) -> tuple[dict, set[str]]:
    """The metrics of a kernel, and the names of its scopes."""

    def scopes(node):
        yield from (child["frame"]["name"] for child in node["children"])
        for child in node["children"]:
            yield from scopes(child)

    queue = [json.loads(path.read_text())[0]]
    for node in queue:
        if node["frame"]["name"] == name:
            return node["metrics"], set(scopes(node))
        queue += node["children"]
    raise AssertionError(f"no kernel {name}")


@pytest.mark.parametrize("make", ["of_rows", "of_matrices", "of_attention"])
def test_a_budget_keeps_results_and_says_what_it_omits(make, tmp_path):
    for number, case in enumerate(getattr(intra_auto_cases, make)("cuda")):
        made = {}
        for budget in ("", "off", "5"):
            path = tmp_path / f"{number}{budget}"
            if budget:
                # 5 is the default.
                mode = "default:auto=all" + (":budget=off" if budget == "off" else "")
                proton.start(str(path), backend="instrumentation", mode=mode)
            case.result.zero_()
            case.launch()
            torch.cuda.synchronize()
            made[budget] = case.result.clone()
            if budget:
                proton.finalize()
                found = kernel_of(path.with_suffix(".hatchet"), case.kernel.__name__)
                made[f"scopes {budget}"], made[f"warning {budget}"] = found[1], found[0].get(
                    "scopes_warning", ""
                )
        assert torch.equal(made[""], made["off"]) and torch.equal(made[""], made["5"]), case.name
        kept, every = made["scopes 5"], made["scopes off"]
        # Without a budget, ring buffers may have lost all records of an earlier loop.
        assert kept, case.name
        if len(kept) < len(every):
            assert "scopes were omitted, because" in made["warning 5"], case.name
        assert "budget" not in made["warning off"], case.name


# ---------------------------------------------------------------------- a wrong prediction


@triton.jit
def masked_stores(out, limit, turns, BLOCK: tl.constexpr):
    """Stores that are predicted to write all elements, and write one."""
    at = tl.arange(0, BLOCK)
    for turn in range(turns):
        value = tl.full((BLOCK,), 0.0, tl.float32) + turn
        tl.store(out + at, value, mask=at < limit)
        tl.store(out + BLOCK + at, value + 1, mask=at < limit)


def executions_of(path: Path) -> tuple[str, list[int]]:
    """The warning about the only kernel, and the executions of its scopes, lowest first."""
    (kernel,) = json.loads(path.read_text())[0]["children"]
    counts = sorted(child["metrics"]["executions"] for child in kernel["children"])
    return kernel["metrics"].get("scopes_warning", ""), counts


def test_a_kernel_that_costs_more_than_predicted_is_compiled_again(tmp_path):
    """Only one of its two scopes is left. Another session begins with that."""
    ctas, turns, block = 4, 1000, 8192
    for name, old in (("first", 4), ("second", 0)):
        out = torch.zeros(2 * block, device="cuda")
        session = proton.start(
            str(tmp_path / name), backend="instrumentation", mode="default:auto=stores:cta=2"
        )
        for _ in range(8):
            masked_stores[(ctas,)](out, 1, turns, BLOCK=block)
            torch.cuda.synchronize()
            proton.deactivate(session, flushing=True)
            proton.activate(session)
        proton.finalize()
        warning, counts = executions_of(tmp_path / f"{name}.hatchet")
        assert "it was compiled again with a smaller budget" in warning
        each = ctas // 2 * 4 * turns  # with 4 warps
        assert counts == [count * each for count in (old, 8) if count]
        assert out.nonzero().flatten().tolist() == [0, block]
        assert out[0] == turns - 1 and out[block] == turns
