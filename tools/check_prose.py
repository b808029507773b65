#!/usr/bin/env python3
"""Check the vocabulary of comments, messages, documents and test names.

Usage: check_prose.py [--list [WORD]] [--counts] [PATH...]

The table below is the policy: an expression, what to write in its place, and how often it may still
occur. A budget may only fall; most are 0. docs/glossary.md explains the terms. --list prints every
occurrence, of one expression with WORD, also those that the budgets allow; --counts prints how
often each occurs. Prose is: comments and string literals of C, JavaScript and Python, Markdown
outside code, comments of scripts and build files, man pages, and the names of tests. A second table
has the words that identifiers do not contain.
"""

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

# Name, expression, what to write, how often it may occur.
WORDS = [
    ("behind", r"\bbehind\b", "after, following, below", 0),
    ("for want of", r"\b(for|of) want of\b", "cannot allocate ...", 0),
    ("reckon", r"\breckon\w*", "compute, account for", 0),
    ("play", r"\b(play(s|ed|ing)?)\b", "fake, simulate", 0),
    ("that there is", r"\bthat there (is|are)\b", "available, existing", 0),
    ("; there are", r"; there are (%|\{|NAMES)", "; available:", 0),
    ("least", r"(?<!at )\bleast\b(?! significant)", "minimum, lowest, shortest", 0),
    ("of ours", r"\bof ours\b", "Proton's, or nothing", 0),
    ("first Proton", r"\bfirst Proton\b|Proton.s first", "upstream Proton", 0),
    ("is said", r"\b(is|are|was|were) said\b|\bsays? so\b|\bsaid (once|on)\b",
     "reports, prints", 0),
    ("is told", r"\b(is|are|was) told\b|\btells? of\b|\btold by\b", "is reported, reports", 0),
    ("in words", r"\bin words\b|\b(a|one) sentence\b", "an error message", 6),
    ("nobody", r"\b(no|some)body\b|\bwhoever\b", "no caller, any thread that", 1),
    ("is no", r"(?<!there )\b(is|are) no (?!longer|more)", "is not a, has no", 1),
    ("not one", r"\bnot one (record|of)\b", "no record, none of", 0),
    ("go on", r"\bgo(es)? on\b", "continue", 0),
    ("stand", r"\bstands? (?!for\b)", "is, appears", 0),
    ("lie in", r"\blies? (in|within|between|at|there|beside|on|below|above)\b", "is in", 0),
    ("way in", r"\b(longest|every) ways?\b|\bway through\b|\bways? (in|meet)\b|\bin the way\b",
     "path", 0),
    ("see to", r"\bsees? to\b|\bseen to\b", "handle, ensure", 0),
    ("out of line", r"\bout of line\b", "noinline", 0),
    ("reading of the clock", r"\breadings? of the clock\b", "clock read", 0),
    ("helper", r"\bhelpers?\b", "noinline callee, or the function's name", 0),
    ("mark", r"(?<!NVTX )\bmarks?\b(?! (it|them|a|an|the|every|each|as)\b)",
     "marker, scope call", 4),
    ("names of C++", r"\bnames? of C\+\+|\bupside down\b", "C++ names; bottom-up", 0),
    ("people", r"\bpeople\b|\ba person\b", "users, a user", 0),
    ("now and then", r"\bfor ever\b|\bnow and then\b|\bonce in a while\b",
     "forever; periodically", 0),
    ("default course", r"\b(its|default) (previous |default )?course\b", "default action", 0),
    ("cure", r"\bcures?\b|\bmeanwhile\b|\banew\b|\bafresh\b|\bbesides\b",
     "remedy; again; also", 1),
    ("some 5", r"\bsome \d", "about N", 0),
    ("believe", r"\bbelieved?\b|\bhostile\b", "trusted, validated; untrusted", 0),
    ("initialise", r"\b((initial|serial|synchron|normal)is\w+|colours?\b|licences?\b|behaviour)",
     "American spelling", 0),
    ("the most", r"\bthe most\b(?! recent)|(?<=, )most\b", "maximum, highest, largest", 8),
    ("as it is", r"\bas (it|they) (is|was|are|were|stands?|lies?)\b", "unchanged", 1),
    ("ring", r"\brings?\b(?! buffer)", "ring buffer; cycle", 69),
    (", for it", r", for (it|they|its|a|that|what|readers|nobody|this|no)\b", "because", 2),
    (", also of", r", also (of|in|for|when|where|after|with|those|one|across|to|if|by|on)\b",
     "including; even", 4),
    ("of its own", r"\bof (its|their|one.s) own\b", "its own X", 3),
    ("What ...", r"(^|[.:;] )What (?!it costs|is new|to do)\w+ (?!.*\?)", "begin with a noun", 21),
    ("Of a ...", r"(^|[.:;] )Of (a|an|the|what|which|each|these|this|such|traces|profiles)\b",
     "put 'of' after its noun", 87),
    ("whose", r"\bwhose\b", "with, that has; or two sentences", 40),
    ("so that", r"\bso that\b", "a new sentence", 4),
    ("pronoun", None, "repeat the noun", 105),
]

# Pronouns without their noun, in comments of src/: counted over a whole comment, as "pronoun".
PRONOUN = re.compile(r"\bthose (of|that|with)\b|\bthat of\b|\bthe ones?\b", re.IGNORECASE)
PRONOUN_FIRST = re.compile(r"(The same|It|They|Others)\b")

# Words that are not part of an identifier, and what to write.
NAMES = {
    "behind": "after",
    "beside": "next_to",
    "cnt": "count",
    "complain": "report",
    "heard": "received",
    "least": "min",
    "most": "max",
    "picture": "table",
    "played": "fake",
    "said": "printed",
    "say": "print",
    "says": "reports",
    "tell": "report",
    "told": "given",
    "whom": "owner",
    "whose": "owner",
}
NAME = re.compile(r"(?:(?<=_)|\b)(" + "|".join(NAMES) + r")(?=_|\b)", re.IGNORECASE)

SHOWN_COLUMNS = 100  # of a comment
SHOWN = 10  # occurrences of an expression over its budget; --list shows all

# Files that are not prose of the project, or hold the expressions on purpose.
SKIPPED = re.compile(
    r"^(tests/(data|fuzz/corpus|golden)/|bench/results/|LICENSE|tools/check_prose|docs/glossary)"
)
C_TOKENS = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*")|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
C_TEST = re.compile(r"^TEST\((\w+)\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)|^class (Test\w+)")
ROFF = re.compile(r"\\f.|\\-|\\&|^\.\S+ ?", re.MULTILINE)


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def comment_lines(text, first):
    """The lines of a comment without its frame."""
    for offset, line in enumerate(text.split("\n")):
        yield first + offset, re.sub(r"^\s*(/\*+|\*+/|\*|//+|#+!?)\s?|\s*\*/\s*$", "", line)


def pronouns_of_c(text):
    """The first line and the text of each comment, once for each pronoun in it."""
    for token in C_TOKENS.finditer(text):
        if token["comment"]:
            lines = comment_lines(token["comment"], line_at(text, token.start()))
            joined = " ".join(line.strip() for _, line in lines).strip()
            found = len(PRONOUN.findall(joined)) + bool(PRONOUN_FIRST.match(joined))
            yield from [(line_at(text, token.start()), joined)] * found


def prose_of_c(text):
    for token in C_TOKENS.finditer(text):
        first = line_at(text, token.start())
        if token["comment"]:
            yield from comment_lines(token["comment"], first)
        elif token["text"] and " " in token["text"]:
            yield first, token["text"][1:-1]
    for test in C_TEST.finditer(text):
        yield line_at(text, test.start()), test[1].replace("_", " ")


def prose_of_python(text):
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from comment_lines(token.string, token.start[0])
            elif token.type == tokenize.STRING and " " in token.string:
                for offset, line in enumerate(token.string.split("\n")):
                    yield token.start[0] + offset, line.strip().strip("\"'")
    except (tokenize.TokenError, IndentationError):
        return
    for number, line in enumerate(text.split("\n"), 1):
        name = PYTHON_TEST.match(line)
        if name:
            yield number, (name[1] or name[2]).replace("_", " ")


def names_of_c(text):
    code = C_TOKENS.sub(lambda token: "\n" * token[0].count("\n"), text)
    yield from enumerate(C_TEST.sub("", code).split("\n"), 1)


def names_of_python(text):
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not PYTHON_TEST.match("def " + token.string):
                yield token.start[0], token.string
    except (tokenize.TokenError, IndentationError):
        return


def prose_of_markdown(text):
    """Where a line continues a sentence it begins with "~", and not with the line's first word."""
    is_code = False
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*(```|~~~)", line):
            is_code = not is_code
        elif not is_code:
            continues = before.strip() and not re.match(r"\s*([-*+|#>]|\d+\.)", line)
            yield number, ("~" if continues else "") + re.sub(r"`[^`]*`", "`x`", line)
        before = "" if is_code else line


def prose_of_script(text):
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.match(r"^(?:.*\s)?# (.*)", line)
        if comment and not line.startswith("#!"):
            yield number, comment[1]


def prose_of_man(text):
    for number, line in enumerate(text.split("\n"), 1):
        yield number, ROFF.sub("", line)


READERS = [
    ((".c", ".h", ".js", ".css", ".def", ".map"), prose_of_c),
    ((".py",), prose_of_python),
    ((".md",), prose_of_markdown),
    ((".1", ".3"), prose_of_man),
    ((".sh", "meson.build", "Makefile", ".ci/run", "meson_options.txt", ".toml"), prose_of_script),
]


def files_of(root, wanted):
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z", "--", *wanted]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return [name for name in sorted(set(listed.split("\0"))) if name and not SKIPPED.match(name)]


def findings(root, wanted):
    """(name of the expression, file, line, text), for each file in the order of its lines."""
    words = [(name, pattern) for name, pattern, _, _ in WORDS if pattern]
    patterns = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in words]
    for file in files_of(root, wanted):
        reader = next((reader for ends, reader in READERS if file.endswith(ends)), None)
        path = root / file
        if not reader or path.is_symlink() or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if file.startswith("src/") and reader is prose_of_c:
            for number, comment in pronouns_of_c(text):
                yield "pronoun", file, number, comment[:SHOWN_COLUMNS]
        for number, line in reader(text):
            for name, pattern in patterns:
                for _ in pattern.finditer(line):
                    yield name, file, number, line.strip()


def bad_names(root, wanted):
    """(file, line, word) of identifiers with a word of NAMES."""
    readers = {".c": names_of_c, ".h": names_of_c, ".py": names_of_python}
    for file in files_of(root, wanted):
        path = root / file
        if path.suffix in readers and path.is_file():
            for number, line in readers[path.suffix](path.read_text(encoding="utf-8")):
                for word in NAME.findall(line):
                    yield file, number, word.lower()


def main():
    """Print what is over its budget; the exit status tells whether anything is."""
    arguments = sys.argv[1:]
    root = Path(__file__).resolve().parent.parent
    is_list = "--list" in arguments
    is_counts = "--counts" in arguments
    rest = [word for word in arguments if not word.startswith("--")]
    named = [word for word in rest if any(word == name for name, *_ in WORDS)]
    found = {}
    for name, file, number, line in findings(root, [word for word in rest if word not in named]):
        found.setdefault(name, []).append(f"{file}:{number}: {line}")
    status = 0
    for name, _, instead, budget in WORDS:
        places = found.get(name, [])
        if is_counts:
            print(f"{len(places):5} of {budget:4}  {name}")
        elif (is_list and (not named or name in named)) or (not is_list and len(places) > budget):
            for place in places if is_list else places[:SHOWN]:
                print(place)
            if places:
                print(f'  "{name}" occurs {len(places)} times, {budget} allowed: write {instead}')
        if len(places) > budget:
            status = 1
    for file, number, word in bad_names(root, rest if not named else []):
        print(f'{file}:{number}: "{word}" in an identifier: write {NAMES[word]}')
        status = 1
    return 0 if is_list or is_counts else status


if __name__ == "__main__":
    sys.exit(main())
