"""Automatic scopes within a budget, on a GPU.

    python -m pytest tests/gpu/test_intra_budget.py

Needs the installed package, torch with CUDA and triton. bench/intra_auto.py measures
their cost.
"""

import json
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "the cost of records was measured there")
pytest.importorskip("triton")

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
