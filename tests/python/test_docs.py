"""The documents against the code: links, names, options, messages and examples."""

import ast
import json
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def read(*parts: str) -> str:
    """Text of a file of the project."""
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    """A page without its examples."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def examples(page: Path, language: str) -> list[str]:
    """The examples of a page in one language."""
    fence = rf"^```{language}\n(.*?)^```"
    return re.findall(fence, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def mentions(text: str, word: str) -> bool:
    """True if `word` occurs in `text` and is not part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


# ------------------------------------------------------------------ the pages themselves


def anchors(page: Path) -> set[str]:
    """Possible targets of a link into a page: headings as GitHub writes them."""
    titles = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text(encoding="utf-8")))
    bad = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            bad.append(target)
    assert not bad


def test_the_readme_is_short():
    assert len(read("README.md").splitlines()) <= 120


def test_readme_quotes_the_measurements():
    rows = {}
    for result in (ROOT / "bench" / "results").glob("*.json"):
        rows |= {row["work"]: row for row in json.loads(result.read_text())["rows"]}
    table = read("README.md").partition("## Overhead")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in lines[0]] == [
        *("work", "unit", "without", "with Proton", "with upstream", "bare CUPTI")
    ]
    assert len(lines) > 6
    for line in table.splitlines():
        if not re.match(r"\| (?!work )\w", line):
            continue
        work, unit, *cells = [cell.strip() for cell in line[1:].rstrip("|").split("|")]
        row = rows[work]
        assert unit == row["unit"] and cells[1], work
        for key, cell in zip(("plain", "ours", "upstream", "floor"), cells, strict=True):
            assert not cell or float(cell) == pytest.approx(row[key], rel=0.01), (work, key)


def test_every_page_is_in_an_index():
    for index in (ROOT / "docs" / "README.md", ROOT / "docs" / "design" / "README.md"):
        text = index.read_text(encoding="utf-8")
        folder = GUIDE if index.parent.name == "docs" else index.parent
        for page in folder.glob("*.md"):
            link = page.relative_to(index.parent).as_posix()
            assert page == index or f"]({link})" in text, link


# ------------------------------------------------------------------ names


def test_every_function_of_the_c_interface_is_in_the_guide():
    text = read("docs", "guide", "c-api.md")
    names = []
    for header in (ROOT / "include" / "libproton").glob("*.h"):
        names += re.findall(r"^PROTON_API [^(]*?(\w+)\(", header.read_text(), re.MULTILINE)
    assert len(names) > 40
    assert [name for name in names if not mentions(text, name)] == []


def options(source: str) -> list[str]:
    """Options as users write them, from the rows of option tables."""
    rows = [
        row
        for path in sorted(ROOT.glob(source))
        for row in re.findall(r'^\t\{(?:0|\'(\w)\'), "([a-z-]+)"', path.read_text(), re.MULTILINE)
    ]
    return [f"--{name}" for _, name in rows] + [f"-{letter}" for letter, _ in rows if letter]


@pytest.mark.parametrize(
    "source, page, manual",
    [
        ("src/cli/proton_options.c", "command-line.md", "proton.1"),
        ("src/viewer/**/*_options.c", "viewing.md", "proton-viewer.1"),
    ],
)
def test_every_option_is_in_the_guide_and_the_manual(source, page, manual):
    names = options(source)
    assert len(names) > 15
    text = (GUIDE / page).read_text(encoding="utf-8")
    assert [name for name in names if not mentions(text, name)] == []
    roff = read("docs", "man", manual).replace("\\-", "-")
    assert [name for name in names if not mentions(roff, name)] == []


def test_every_public_name_of_the_package_is_in_the_guide():
    text = "\n".join(page.read_text(encoding="utf-8") for page in GUIDE.glob("*.md"))
    names = re.findall(r'^    "(\w+)",$', read("python", "triton_proton", "__init__.py"), re.M)
    assert "start" in names
    data = re.findall(r"^def ([a-z]\w+)", read("python", "triton_proton", "data.py"), re.MULTILINE)
    assert [name for name in names + data if not mentions(text, name)] == []


def test_every_environment_variable_is_in_the_guide():
    text = read("docs", "guide", "environment.md")
    call = r"(?:environment_get|get|is_set|is_true|library_search_named|library_search_value)"
    pattern = call + r'\((?:search, )?"([A-Z_]+)"'
    names = set()
    for source in [*ROOT.glob("src/**/*.c"), *ROOT.glob("python/triton_proton/**/*.py")]:
        names |= set(re.findall(pattern, source.read_text(encoding="utf-8")))
    libraries = read("src", "driver", "amd_library.c")
    names |= set(re.findall(r'"((?:PROTON|TRITON)_[A-Z_]+)"', libraries))
    names -= {"PATH", "LD_LIBRARY_PATH"}
    assert {"PROTON_PYTHON", "PROTON_CUPTI_PATH", "TRITON_PROTON_DISABLE"} <= names
    assert [name for name in sorted(names) if not mentions(text, name)] == []


def losses() -> list[str]:
    code = read("src", "record", "store", "counters.def")
    names = re.findall(r'^LOSS\(\w+, "([^"]+)"\)', code, re.MULTILINE)
    assert len(names) > 8
    return [f"lost: {name}" for name in names]


def test_every_loss_is_in_the_guide():
    text = read("docs", "guide", "failures.md")
    assert [name for name in losses() if f"| `{name}` |" not in text] == []


def test_the_viewer_prints_a_remedy_for_every_loss():
    table = read("src", "viewer", "query", "input.c").split("} remedies[] = {")[1].split("};")[0]
    known = re.findall(r'\{"([^"]+)",', table)
    assert [loss for loss in losses() if not any(cause in loss for cause in known)] == []
    # The first match is printed: each entry is the first match of some counter.
    first = {next(cause for cause in known if cause in loss) for loss in losses()}
    assert [cause for cause in known if cause not in first] == []
    assert len(set(known)) == len(known)


def test_table_of_components_is_the_one_that_is_enforced():
    code = read("tools", "check_includes.py")
    rules = ast.literal_eval(re.search(r"^MAY_INCLUDE = ({.*?^})", code, re.M | re.S)[1])
    rows = re.findall(r"^\| `(src/\w+)` \| [^|]* \| ([^|]*) \|", read("CONTRIBUTING.md"), re.M)
    table = {space: set(re.findall(r"[\w./]+", may)) - {"nothing"} for space, may in rows}
    there = {name for name in rules if (ROOT / name).is_dir() and name.startswith("src/")}
    assert set(table) == there
    for space in there - {"src/cli"}:  # that row is a sentence
        known = {name for name in rules[space] if (ROOT / "src" / name).exists()}
        assert table[space] == known, space


def test_order_of_layers_is_the_one_that_is_enforced():
    code = read("tools", "check_includes.py")
    rules = ast.literal_eval(re.search(r"^LAYERS = ({.*?^})", code, re.M | re.S)[1])
    table = read("CONTRIBUTING.md").partition("| layer | contains |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == rules["src/record"]
    parts = (ROOT / "src" / "record").iterdir()
    assert {part.stem for part in parts} - {"meson"} == set(rules["src/record"])


FILE = re.compile(r"`((?:src|python|include|tests|tools|bench|examples|docs)/[\w./-]+)`")


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "design").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_files_that_pages_name_exist(page):
    text = page.read_text(encoding="utf-8")
    names = {name for name in FILE.findall(text) if "NAME" not in name}
    assert page.name not in ("CONTRIBUTING.md", "lives.md") or len(names) > 25
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_walk_of_a_newcomer_names_a_file_for_each_question():
    walk = read("CONTRIBUTING.md").partition("## Where to look")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", walk, re.MULTILINE)
    assert len(rows) == 10
    assert [question for question, answer in rows if not FILE.search(answer)] == []


# ------------------------------------------------------------------ messages


def c_literals(code: str) -> list[str]:
    """The texts of C code as patterns: adjacent pieces joined, what is filled in as `.*`."""
    piece = r'"(?:[^"\\\n]|\\.)*"'
    texts = []
    for found in re.findall(rf"{piece}(?:\s*(?:[A-Z]\w+\s*)?{piece})*", code):
        joined = re.sub(r'%"\s*PRI\w+\s*"', "%s", found)
        joined = re.sub(r'"\s*"', "", joined)
        joined = re.sub(r'"\s*[A-Z]\w+\s*"', "%s", joined)[1:-1].replace('\\"', '"')
        joined = joined.replace("\\n", "")
        parts = re.split(r"%(?:%|[-.*\d]*[lz]*[a-zA-Z])", joined)
        texts.append(".*".join(re.escape(part) for part in parts))
    return texts


def python_literals(code: str) -> list[str]:
    """The same of Python code."""
    texts = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(re.escape(node.value))
        elif isinstance(node, ast.JoinedStr):
            texts.append(
                "".join(
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
                    for part in node.values
                )
            )
    return texts


def fixed_length(pattern: str) -> int:
    """How many characters of a pattern of the functions above have to match."""
    return len(pattern.replace(".*", "").replace("\\", ""))


def all_literals() -> list[str]:
    """Patterns of all texts that are long enough to tell a message by."""
    texts = []
    for source in [*ROOT.glob("src/**/*.c"), *ROOT.glob("python/ext/**/*.c")]:
        texts += c_literals(source.read_text(encoding="utf-8"))
    for source in ROOT.glob("python/triton_proton/**/*.py"):
        texts += python_literals(source.read_text(encoding="utf-8"))
    return [text for text in texts if fixed_length(text) >= 8]


def test_every_message_in_the_guide_is_one_of_the_program():
    page = read("docs", "guide", "troubleshooting.md")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    patterns = [(fixed_length(text), re.compile(text)) for text in all_literals()]
    unknown = []
    for message in messages:
        fixed = re.sub(r"\b[A-Z]+\b", "", message)
        # Words that the program fills in are spelled out in some rows, hence not all has to match.
        if not any(
            length >= 0.4 * len(fixed) and pattern.search(message) for length, pattern in patterns
        ):
            unknown.append(message)
    assert unknown == []


# ------------------------------------------------------------------ examples


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_are_python(page):
    for example in examples(page, "python"):
        ast.parse(textwrap.dedent(example))


def test_c_examples_compile(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    programs = [
        example
        for page in PAGES
        for example in examples(page, "c")
        if re.search(r"^int main", example, re.MULTILINE)
    ]
    assert programs
    for program in programs:
        source = tmp_path / "example.c"
        source.write_text(program)
        strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
        subprocess.run(
            [compiler, *strict, f"-I{ROOT / 'include'}", str(source)], check=True, timeout=300
        )


@pytest.mark.parametrize(
    "page", ["slow-step", "slow-kernel", "slow-rank", "slow-server", "did-it-help"]
)
def test_a_page_per_question_is_short(page):
    assert len((ROOT / "docs" / "guide" / f"{page}.md").read_text().splitlines()) <= 60
