"""C++ names on the screen: those of cuBLAS, CUTLASS and PyTorch kernels and of PyTorch's libraries.

tests/data/symbol/names.tsv has stored names, full ones and short ones. The full ones are compared
with c++filt too, where there is one.
"""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cmd_support import executable
from support import run_command

DATA = Path(__file__).resolve().parent.parent / "data" / "symbol" / "names.tsv"
NAMES = [line.split("\t") for line in DATA.read_text().splitlines() if not line.startswith("#")]


def shown(tmp_path: Path, names: list[str], style: str) -> list[str]:
    """The viewer's output for frames with these names, in their order."""
    children = [
        {
            "children": [],
            "frame": {"name": name, "type": "function"},
            "metrics": {"x": len(names) - i},
        }
        for i, name in enumerate(names)
    ]
    root = {
        "children": children, "frame": {"name": "ROOT", "type": "function"}, "metrics": {"x": 0}
    }
    path = tmp_path / "names.hatchet"
    path.write_text(json.dumps([root, {}]))
    command = [executable("proton-viewer"), "--csv", "--names", style, "-m", "x", str(path)]
    text = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode()
    return [row[3] for row in csv.reader(io.StringIO(text, newline=""))][2:]


@pytest.mark.parametrize("column, style", [(0, "raw"), (1, "full"), (2, "short")])
def test_names_are_written_as_in_the_source(tmp_path, column, style):
    assert len(NAMES) > 190
    assert shown(tmp_path, [row[0] for row in NAMES], style) == [row[column] for row in NAMES]


def test_cxxfilt_agrees(tmp_path):
    tool = shutil.which("c++filt")
    if tool is None:
        pytest.skip("no c++filt")
    stored = "\n".join(row[0] for row in NAMES)
    text = run_command([tool], stdin=stored).stdout
    while "> >" in text:
        text = text.replace("> >", ">>")
    text = re.sub(r"std::basic_([io])stream<char, std::char_traits<char>>", r"std::\1stream", text)
    assert text.splitlines() == [row[1] for row in NAMES]


def test_other_names_than_of_cxx_are_unchanged(tmp_path):
    names = ["_Z", "_Zx", "_ZN", "_Z3fo", "_ZN3fooE_", "_Z1fIT_EvT_", "sm90_xmma_gemm", "_Z1fS_"]
    assert shown(tmp_path, names, "full") == names


# Cut off, without a value, a type or parameters, with numbers that lead nowhere.
MALFORMED = [
    "_Z1fILbEEvv", "_Z1fILiEEvv", "_Z1fILinEEvv", "_Z1fILbnEEvv", "_Z1fILN2ns4KindEEEvv",
    "_Z1fILi1", "_Z1fIiEi", "_Z1fIiEKT_", "_Z1fUlE_", "_Z1fIiEvT0_", "_Z1fiS_", "_Z1fSx",
    "_Z1fIiEvT", "_Z1fIiEvT_E", "_Z1fIJiEvDpT_", "_Z1fDpT_", "_ZN1aIiE", "_ZN1a1bE1c1", "_ZNE",
    "_ZN1aC9Ev", "_Z0f", "_Z99f", "_Z1fv_", "_ZZ1fvE", "_ZZ1fvE1xd_", "_ZTV", "_ZThn8_",
    "_ZTh8N1a1bEv", "_Z1fIXpliLi1EEvv", "_Z1fIXplLi1EEEvv", "_Z1fIXE Evv", "_Z1fIXstEEvv",
    "_Z1fA_", "_Z1fA3i_", "_Z1fPK", "_Z1fDv4", "_Z1fDv4_", "_Z1fu", "_ZNKE", "_ZStE", "_ZSt1",
    "_Zcv", "_ZGVE", "_ZN1aB3xE", "_ZNILiE", "_ZN1aIXE",
]


def test_malformed_names_stay(tmp_path):
    names = [*MALFORMED, "_Z1fPFiE", "_Z1fM3FooKFvE", "_Z1f."]  # binutils leaves these alone too
    assert shown(tmp_path, names, "full") == names
    assert shown(tmp_path, names, "short") == names


@pytest.mark.parametrize("tool", ["c++filt", "llvm-cxxfilt"])
def test_malformed_names_are_malformed_to_others(tool):
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    stored = "\n".join(MALFORMED)
    text = run_command([tool], stdin=stored).stdout
    assert text.splitlines() == MALFORMED


def test_filters_know_both_names(tmp_path):
    path = DATA.parent.parent / "viewer" / "up_tree.hatchet"
    for pattern in ("^_ZN2at6native", r"at::native::CUDAFunctor_add<c10::Half>"):
        command = [executable("proton-viewer"), "--csv", "-m", "count", "-i", pattern, str(path)]
        text = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode()
        assert len(text.splitlines()) == 5
