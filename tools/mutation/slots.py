"""Where C sources can be changed: the conditions, values and statements of their functions.

The sources are formatted by clang-format: the braces of functions are in column 0, and spaces are
around binary operators. Code that cannot be in a choice between two texts, such as a declaration
of two variables, has no slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

# A slot's kind says how its two texts are chosen from: as a condition, a value, a value that is
# thrown away, or a statement.
CONDITION, VALUE, RETURN, VOID, STATEMENT = "condition", "value", "return", "void", "statement"

FUNCTION = re.compile(r"^(\w[^\n;={}]*\([^;={}]*\)\s*)\n\{\n(.*?)^\}", re.S | re.M)
LABEL = re.compile(r"(?:case [^:?]*|default|\w+)\s*:(?!:)")
HEAD = re.compile(r"(if|while|for|switch) \(")
DECLARATION = re.compile(
    r"(?:static |const |struct |enum |unsigned |volatile |_Atomic|"
    r"(?!return\b|goto\b)\w+ \**\w+[ ;=\[,])"
)
# Their loss shows nothing: assertions, messages, attributes.
SKIPPED = re.compile(r"\bassert\(|_Static_assert|\b(f?printf|puts|perror|note_\w+)\(|__attribute__")


@dataclass(frozen=True)
class Slot:
    """A range of a source, and how a changed text of it is put beside the original one."""

    kind: str
    start: int
    end: int
    keyword: str  # before a condition: if, while, for, switch
    function: str  # the head of the function


def mask(text: str) -> str:
    """The text with comments, strings and directives blanked, of the same length."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == "/":
            return re.sub(r"[^\n]", " ", found)
        return found[0] + "@" * (len(found) - 2) + found[-1]

    literals = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    text = re.sub(literals, blank, text, flags=re.S)
    directives = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    return re.sub(directives, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M)


def closing(masked: str, at: int) -> int:
    """Where the parenthesis at `at` is closed."""
    depth = 0
    for i in range(at, len(masked)):
        depth += {"(": 1, ")": -1}.get(masked[i], 0)
        if depth == 0:
            return i
    return len(masked)


def top_level(masked: str, start: int, end: int, wanted: str) -> Iterator[int]:
    """Where one of the wanted characters is outside of all brackets."""
    depth = 0
    for i in range(start, end):
        if depth == 0 and masked[i] in wanted:
            yield i
        depth += (masked[i] in "([{") - (masked[i] in ")]}")


def for_parts(masked: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The three parts of a loop's head that can be wrapped."""
    first, second = list(top_level(masked, start, end, ";"))[:2]
    value = masked.find(" = ", start, first)
    if value >= 0 and not list(top_level(masked, start, first, ",")):
        yield VALUE, value + 3, first
    if second > first + 1:
        yield CONDITION, first + 2, second
    if end > second + 1:
        yield VOID, second + 2, end


def simple_statement(masked: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The slot of a statement, or the value of a declaration; `end` is after the semicolon."""
    code = masked[start:end]
    if re.match(r"(?:goto|break|continue)\b|;", code):
        return
    if re.match(r"return\b", code):
        if code != "return;":
            yield RETURN, start + 7, end - 1
    elif DECLARATION.match(code):
        value = masked.find(" = ", start, end)
        is_single = not list(top_level(masked, start, end, ","))
        if value >= 0 and is_single and masked[value + 3] != "{" and not code.startswith("static"):
            yield VALUE, value + 3, end - 1
    else:
        yield STATEMENT, start, end


def body_slots(masked: str, at: int, limit: int) -> Iterator[tuple[str, int, int, str]]:
    """(kind, start, end, keyword) of everything in a function's body that can be wrapped."""
    while at < limit:
        skipped = re.compile(r"[\s{}]+|(?:else|do)\b").match(masked, at, limit) or LABEL.match(
            masked, at, limit
        )
        if skipped:
            at = skipped.end()
            continue
        head = HEAD.match(masked, at, limit)
        if head:
            close = closing(masked, head.end() - 1)
            if head[1] == "for":
                for part in for_parts(masked, head.end(), close):
                    yield *part, "for"
            else:
                yield CONDITION, head.end(), close, head[1]
            at = close + 1
            continue
        stop = next(top_level(masked, at, limit, ";{"), limit)
        if masked[stop : stop + 1] == "{":
            if not re.search(r"[=\]]\s*$", masked[at:stop]):
                at = stop + 1  # the block of a macro that is a loop, or of a local type
                continue
            stop = next(top_level(masked, stop, limit, ";"), limit)  # an initializer
        else:
            for part in simple_statement(masked, at, stop + 1):
                yield *part, ""
        at = stop + 1


def slots(text: str, masked: str) -> Iterator[Slot]:
    """All slots of a source. Directives inside a slot cannot be doubled."""
    for function in FUNCTION.finditer(masked):
        for kind, start, end, keyword in body_slots(masked, function.start(2), function.end(2)):
            inside = text[start:end]
            if inside.strip() and not re.search(r"^\s*#", inside, re.M):
                if not SKIPPED.search(masked[start:end]):
                    yield Slot(kind, start, end, keyword, function[1])
