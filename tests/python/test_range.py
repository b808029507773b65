"""`proton --range NAME`: a session for the first entry of a scope."""

import textwrap

import pytest

from cmd_support import environment, own_lines, proton
from support import load, names

SCRIPT = """
import triton_proton as proton
from triton_proton import flags

enter, leave = {pair}
is_live = []
with proton.scope("early"):
    pass
for number in range(3):
    with proton.scope("around"):
        name = "step" if number else "first"
        entered = enter(name)
        is_live.append(flags.flags.profiling_on)
        with proton.scope(f"inside_{{number}}"):
            pass
        leave(name, entered)
        is_live.append(flags.flags.profiling_on)
print(is_live)
"""
PAIRS = {
    "scope": "lambda n: proton.scope(n).__enter__(), lambda n, s: s.__exit__(None, None, None)",
    "timed": (
        "lambda n: proton.cpu_timed_scope(n).__enter__(), "
        "lambda n, s: s.__exit__(None, None, None)"
    ),
    "function": "lambda n: proton.enter_scope(n), lambda n, s: proton.exit_scope(n)",
}


@pytest.fixture
def env(tmp_path):
    (tmp_path / "run").mkdir()
    return environment(XDG_RUNTIME_DIR=str(tmp_path / "run"), PROTON_BACKEND="host")


@pytest.mark.parametrize("kind", PAIRS)
def test_the_first_entry_is_recorded_to_its_end(kind, tmp_path, env):
    (tmp_path / "x.py").write_text(SCRIPT.format(pair=PAIRS[kind]))
    done = proton("--range", "step", "-k", "triton", "x.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    # The rounds are: before, the range, and after it.
    assert done.stdout == "[False, False, True, False, False, False]\n"
    assert "in 2 contexts" in own_lines(done.stderr)[-1]
    root = load(tmp_path / "proton.hatchet")
    assert names(root) == {"step"}
    assert names(root["children"][0]) == {"inside_1"}
    assert ("cpu_time (ns)" in root["children"][0]["metrics"]) == (kind == "timed")


def test_other_threads_may_enter_it(tmp_path, env):
    code = """
        import threading
        import triton_proton as proton
        def work():
            for _ in range(200):
                with proton.scope("step"):
                    pass
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        print(proton.flags.flags.profiling_on)
    """
    (tmp_path / "x.py").write_text(textwrap.dedent(code))
    done = proton("--range", "step", "x.py", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert names(load(tmp_path / "proton.hatchet")) == {"step"}


def test_a_range_that_never_comes_or_never_ends(tmp_path, env):
    code = "import triton_proton as p\np.enter_scope('step')\np.enter_scope('inner')\n"
    (tmp_path / "x.py").write_text(code)
    done = proton("--range", "other", "x.py", cwd=tmp_path, env=env)
    text = "the scope of --range was never entered: nothing was recorded"
    assert (done.returncode, own_lines(done.stderr)) == (0, [text])
    done = proton("-q", "--range", "other", "x.py", cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.glob("*.hatchet"))
    done = proton("--range", "step", "x.py", cwd=tmp_path, env=env)
    assert done.returncode == 0
    root = load(tmp_path / "proton.hatchet")
    assert names(root["children"][0]) == {"inner"}


def test_children_have_their_own(tmp_path, env):
    code = """if 1:
        import os, subprocess, sys
        import triton_proton as proton
        with proton.scope(sys.argv[1]):
            pass
        if sys.argv[1] == "step":
            subprocess.run(["proton", "--range", "child", "-n", "c", sys.argv[0], "child"],
                           timeout=120, check=True)
    """
    (tmp_path / "x.py").write_text(code)
    done = proton("--range", "step", "x.py", "step", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert names(load(tmp_path / "proton.hatchet")) == {"step"}
    assert names(load(tmp_path / "c.hatchet")) == {"child"}


@pytest.mark.parametrize("words", [["--range", ""], ["--range", "x", "--for", "1"]])
def test_a_range_without_a_name_or_with_times(words, tmp_path):
    done = proton(*words, "x.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "--range needs the name of a scope, and no --start-after and --for" in done.stderr
