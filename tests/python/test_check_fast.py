"""The table of tools/check_fast.py has every component, and names tests that exist."""

import importlib.util

import pytest

from built import ROOT


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("check_fast", ROOT / "tools" / "check_fast.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_component_has_tests(tool):
    folders = {f"{path.relative_to(ROOT)}/" for path in (ROOT / "src").glob("*/")}
    folders |= {f"{path.relative_to(ROOT)}/" for path in (ROOT / "src" / "backend").glob("*/")}
    folders = {folder for folder in folders if (ROOT / folder).is_dir()}
    assert len(folders) > 12
    for folder in folders:
        c_tests, python_tests = tool.chosen_parts([f"{folder}x.c"])
        assert c_tests or python_tests, folder


def test_the_named_tests_exist(tool):
    for _, c_tests, python_tests in tool.PARTS:
        for folder in c_tests:
            assert list((ROOT / "tests" / "unit" / folder).glob("test_*.c")), folder
        for name in python_tests:
            assert (ROOT / "tests" / "python" / f"test_{name}.py").exists(), name
    programs = {path.stem for path in (ROOT / "tests" / "unit").rglob("test_*.c")}
    assert tool.LONG <= programs


def test_a_changed_test_is_chosen_itself(tool):
    assert tool.chosen_parts(["tests/python/test_lib.py"]) == (set(), {"lib"})
    assert tool.chosen_parts(["src/backend/cuda/a.c"])[0] == {"cuda"}
    assert tool.chosen_parts(["README.md"]) == (set(), set())
