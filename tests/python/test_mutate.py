"""tools/mutate.py: which mistakes it makes, and what it says of tests that do and do not notice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

SOURCE = """/* What is mutated. */
#include "tiny.h"

int add(int a, int b)
{
    return a + b;
}

int subtract(int a, int b)
{
    return a - b;
}

int multiply(int a, int b)
{
    return a * b;
}

int shift(int a, int b)
{
    return a << b;
}

int steps_to(int end)
{
    int steps = 0;

    while (steps < end) {
        steps++;
    }
    return steps;
}

int put(int *number, const char *text)
{
    return first(number, text) == 0;
}

#ifdef ELSEWHERE
int elsewhere(int a, int b)
{
    return a + b;
}
#endif
"""
HEADER = """/* Declarations. */
int add(int a, int b);
int subtract(int a, int b);
int multiply(int a, int b);
int shift(int a, int b);
int steps_to(int end);
int put(int *number, const char *text);
int first(int *number, const char *text);
"""
TEST = """/* Notices some of it. */
#include "../src/tiny/tiny.h"

int first(int *number, const char *text)
{
    return *number - *text;
}

int main(void)
{
    int one = 1;

    if (add(2, 3) != 5)
        return 1;
    if (subtract(3, 0) != 3 || shift(0, 1) != 0)
        return 2;
    if (put(&one, "") != 0)
        return 3;
    return steps_to(2) != 2 || steps_to(0) != 0;
}
"""
BUILD = """project('tiny', 'c')
test('test_tiny', executable('test_tiny', 'src/tiny/tiny.c', 'tests/test_tiny.c'))
"""
EQUIVALENT = """# Mutants that change nothing.

src/tiny/tiny.c shift: the test shifts nothing but 0
- return a << b;
+ return a >> b;
"""


@pytest.fixture
def tiny(tmp_path):
    """A small project with its test."""
    root = tmp_path / "tiny"
    for name, content in {
        "src/tiny/tiny.c": SOURCE,
        "src/tiny/tiny.h": HEADER,
        "tests/test_tiny.c": TEST,
        "tools/mutate_equivalent.txt": EQUIVALENT,
        "meson.build": BUILD,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def mutate(root, *arguments):
    """The output of one run, and its result."""
    command = [sys.executable, str(TOOLS / "mutate.py"), "--root", str(root), "--limit", "2"]
    done = subprocess.run(
        [*command, "--count", "40", "--seed", "12", "--jobs", "2", *arguments],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = root / "build-mutate" / "result.json"
    return done.stdout, json.loads(result.read_text()) if result.exists() else None


@pytest.fixture
def operators(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    from mutation import operators

    return operators


def test_the_mistakes_of_a_file_are_these(operators, tmp_path):
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "a.c").write_text(
        'int f(int a, int *b)\n{\n\tassert(a < 3);\n\tif (a < 7 && b)\n\t\tcall(a, "1 < 2", b);\n'
        "\tfree(b);\n\tfor (int i = a; i != 4096; i++)\n\t\tb[i] = g(a, i); // 5 > 4\n"
        "\tp = a < 2 ? calloc(a + 1, 8) : q;\n\treturn -1;\n}\n"
    )
    found = operators.file_mutants(tmp_path, Path("src/a/a.c"))
    assert sorted((mutant.line, mutant.kind, mutant.after) for mutant in found) == [
        (4, "boundary", "if (a <= 7 && b)"),
        (4, "constant", "if (a < 6 && b)"),
        (4, "constant", "if (a < 8 && b)"),
        (4, "logic", "if (a < 7 || b)"),
        (4, "negation", "if (!(a < 7 && b))"),
        (5, "removal", ";"),
        (7, "equality", "for (int i = a; i == 4096; i++)"),
        (8, "arguments", "b[i] = g(i, a); // 5 > 4"),
        (8, "removal", "; // 5 > 4"),
        (9, "boundary", "p = a <= 2 ? calloc(a + 1, 8) : q;"),
        (9, "constant", "p = a < 1 ? calloc(a + 1, 8) : q;"),
        (9, "constant", "p = a < 3 ? calloc(a + 1, 8) : q;"),
        (9, "removal", ";"),
        (10, "status", "return 0;"),
    ]
    assert {mutant.room for mutant in found} == {"a"}


EQUAL = """int f(int a, int b)
{
\tif (a > b)
\t\ta = b;
\ta = b < a ? b : a;
\tb = a > b ? a - b : 0;
\tif (a != b)
\t\treturn a < b ? -1 : 1;
\treturn g(a > b ? b : a);
}
"""
DIFFERENT = """int f(int a, int b)
{
\tif (a > b)
\t\ta = c;
\ta = c + b < a ? b : a;
\tb = a > b ? a - b : 1;
\tif (a != c)
\t\treturn a < b ? -1 : b;
\treturn g(h(a) > b ? b : a);
}
"""


@pytest.mark.parametrize("source, boundaries", [(EQUAL, []), (DIFFERENT, [3, 5, 6, 8, 9])])
def test_boundaries_with_equal_results_are_not_moved(operators, tmp_path, source, boundaries):
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "a.c").write_text(source)
    found = operators.file_mutants(tmp_path, Path("src/a/a.c"))
    assert sorted(m.line for m in found if m.kind == "boundary") == boundaries
    signs = [m.after for m in found if m.kind == "constant" and "-1 :" in m.after]
    assert signs == ["return a < b ? -1 : 0;"] * (source is EQUAL)


def test_a_seed_chooses_the_same_mutants_again_and_another_seed_others(operators, tiny):
    rooms = operators.all_mutants(tiny, [Path("src/tiny/tiny.c")])
    chosen = [
        [mutant.key for mutant in operators.sample(rooms, seed, 4, set())] for seed in (1, 1, 2)
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(set(keys)) == 4 for keys in chosen)
    others = operators.sample(rooms, 1, 4, set(chosen[0]))
    assert not {mutant.key for mutant in others} & set(chosen[0])


def test_mutants_that_tests_notice_are_killed_and_others_survive(tiny):
    before = {path: path.read_bytes() for path in tiny.rglob("*") if path.is_file()}
    printed, result = mutate(tiny)
    (scored,) = result["results"]
    assert [(m["line"], m["verdict"], m["after"]) for m in scored["survivors"]] == [
        (11, "survived", "return a + b;"),
        (16, "unreached", "return a / b;"),
    ]
    assert [(m["after"], m["reason"]) for m in scored["equivalent"]] == [
        ("return a >> b;", "the test shifts nothing but 0")
    ]
    killed, total = scored["all"]
    assert killed == total - 2 and scored["rooms"] == {"tiny": scored["all"]}
    # An addition, and a loop that never ends.
    assert "src/tiny/tiny.c:6 arithmetic: test_tiny: status 1" in printed
    assert "src/tiny/tiny.c:29 removal: test_tiny: time limit" in printed
    # The compiler refuses arguments of other types, and the preprocessor drops the last function.
    assert printed.count("1 mutants are not compiled and are replaced") == 2
    assert "tiny.c:36 " not in printed and "tiny.c:42 " not in printed
    assert "- return a - b;\n+ return a + b;" in printed
    after = {path: path.read_bytes() for path in before}
    assert after == before


def test_a_second_run_judges_only_survivors_and_only_with_changed_tests(tiny):
    _, first = mutate(tiny)
    printed, again = mutate(tiny)
    assert "tiny.c:11 " not in printed and again["results"] == first["results"]
    test = tiny / "tests" / "test_tiny.c"
    test.write_text(TEST.replace("subtract(3, 0) != 3", "subtract(3, 1) != 2"))
    printed, result = mutate(tiny)
    assert "src/tiny/tiny.c:11 arithmetic: test_tiny: status 2" in printed
    assert "tiny.c:6 " not in printed
    assert [m["line"] for m in result["results"][0]["survivors"]] == [16]


def test_a_test_that_fails_without_a_mutant_kills_none(tiny):
    test = tiny / "tests" / "test_tiny.c"
    test.write_text(TEST.replace("add(2, 3) != 5", "add(2, 3) == 5"))
    printed, result = mutate(tiny)
    assert "test_tiny does not pass without a mutant and is not used" in printed
    assert result["results"][0]["all"][0] == 0
