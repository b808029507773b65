"""The small mistakes that are made on purpose, and the choice of a sample of them."""

from __future__ import annotations

import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Container, Iterable, Iterator

from mutation.slots import CONDITION, RETURN, STATEMENT, Slot, closing, mask, slots

SWAPS = {
    "boundary": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "equality": {"==": "!=", "!=": "=="},
    "logic": {"&&": "||", "||": "&&"},
    "arithmetic": {
        "+": "-", "-": "+", "*": "/", "/": "*", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=",
    },  # fmt: skip
    "bits": {"&": "|", "|": "&", "|=": "&=", "&=": "|="},
}
NEW_OPERATORS = {old: (new, kind) for kind, pairs in SWAPS.items() for old, new in pairs.items()}
OPERATOR = re.compile(r"(?<=[\w)\]@\"'] )([<>=!]=|[<>+\-*/&|]|<<|>>|&&|\|\||[+\-|&]=)(?= |\n)")
# Not -1: other negative numbers mean the same.
NUMBER = re.compile(r"(?<![\w.@-])(\d+)(?![\w.@])")
# Comparisons with the same result for equal operands, whatever the order includes.
OPERAND = r"\w[\w.\[\]]*(?:->[\w.\[\]]+)*"
CHOSEN = re.compile(
    rf"(?:(?<=return )|(?<![\w.)\]+\-*/%|&^<>!~] ))(?<![\w.>)*&!~-])({OPERAND})"
    rf" ([<>]=?) ({OPERAND})\s\? ([^:?;]+?)\s: ([^;,)]+)[;,)]"
)
CLAMPED = re.compile(rf"if \(({OPERAND}) ([<>]=?) ({OPERAND})\)\s+(\S+) = (\S+);")
ORDERED = re.compile(rf"if \(({OPERAND}) != ({OPERAND})\)\s+return \1 ([<>]) \2\b")
CALL = re.compile(r"\b([a-z_]\w*)\(")
ARGUMENT = re.compile(r"[&*]?[a-z_][\w.]*(?:->[\w.]+|\[\w+\])*")
# Their loss is a leak or a hang, or nothing but time.
RELEASES = re.compile(
    r"free|fini|release|lock\(|destroy|close|munmap|clear_error|DECREF|CLEAR|XDEC"
    r"|prefetch|reserve\(|madvise|GC_Track|nanosleep|usleep|sched_yield"
)
# The order of their arguments makes no difference.
SYMMETRIC = re.compile(r"cmp$|min|max|equal|same|swap|is_between|compare|clamped")
FAILURE = re.compile(
    r"(?:err_(?:set|errno|wrap)|out_of_memory|fail\w*|ext_raise)\(.*\)|-1|PROTON_E_\w+|status", re.S
)
Key = tuple[str, int, str]
# How much they allocate shows nothing, except to sanitizers.
ALLOCATION = re.compile(r"\w*(?:[cm]alloc|reserve)\(")
# Room for texts and tables: a little more or less of it is not a mistake.
CAPACITY = 256


@dataclass(frozen=True)
class Mutant:
    """One change: the text from `at` is `new` instead of `old`, inside of a slot."""

    room: str
    file: str
    line: int
    kind: str
    at: int
    old: str
    new: str
    before: str  # the lines around the change, in one line
    after: str
    slot: Slot
    slot_line: int

    @property
    def key(self) -> Key:
        """The same for the same mutant as long as its file does not change."""
        return self.file, self.at, self.new

    @property
    def function(self) -> str:
        """The name of the function that contains it."""
        return re.findall(r"(\w+)\(", self.slot.function)[-1]

    def to_json(self) -> dict:
        """Everything but the slot."""
        fields = asdict(self)
        names = ("room", "file", "line", "kind", "before", "after")
        return {**{name: fields[name] for name in names}, "function": self.function}


def equal_boundaries(masked: str) -> set[int]:
    """Where `<` means the same as `<=`: minima, maxima, limits, `a > b ? a - b : 0`, orders."""
    found = {match.start(3) for match in ORDERED.finditer(masked)}
    for match in CLAMPED.finditer(masked):
        if {match[1], match[3]} == {match[4], match[5]}:
            found.add(match.start(2))
    for match in CHOSEN.finditer(masked):
        a, b, results = match[1], match[3], {match[4], match[5]}
        if results in ({a, b}, {f"{a} - {b}", "0"}, {f"{b} - {a}", "0"}):
            found.add(match.start(2))
    return found


def changes(
    text: str, masked: str, slot: Slot, equal: Container[int] = ()
) -> Iterator[tuple[int, str, str, str]]:
    """(at, old, new, kind) of each mistake in a slot; `equal` are places of equal_boundaries()."""
    code = masked[slot.start : slot.end]
    sizes = [
        range(call.end(), closing(masked, call.end() - 1))
        for call in ALLOCATION.finditer(masked, slot.start, slot.end)
    ]
    for found in OPERATOR.finditer(masked, slot.start, slot.end):
        if any(found.start() in size for size in sizes):
            continue
        new, kind = NEW_OPERATORS[found[1]]
        if kind != "boundary" or found.start() not in equal:
            yield found.start(), found[1], new, kind
    for found in NUMBER.finditer(masked, slot.start, slot.end):
        value = int(found[1], 8 if found[1].startswith("0") and found[1].isdigit() else 10)
        is_capacity = value >= CAPACITY and value & (value - 1) == 0
        if is_capacity or any(found.start() in size for size in sizes):
            continue
        is_sign = masked.endswith("? -1 : ", 0, found.start())  # as for -1
        for near in (value - 1,) if is_sign else (value + 1, value - 1):
            if near >= 0:
                yield found.start(), found[1], str(near), "constant"
    yield from swapped_arguments(text, masked, slot)
    original = text[slot.start : slot.end]
    if slot.kind == CONDITION and slot.keyword in ("if", "while") and code != "true":
        yield slot.start, original, f"!({original})", "negation"
    if slot.kind == STATEMENT and not RELEASES.search(code):
        yield slot.start, original, ";", "removal"
    if slot.kind == RETURN:
        if code in ("true", "false"):
            yield slot.start, original, "false" if code == "true" else "true", "status"
        elif re.match(r"(?:static )?(?:inline )?(?:int|enum \w+)\s", slot.function):
            if FAILURE.fullmatch(code):
                yield slot.start, original, "0", "status"


def swapped_arguments(text: str, masked: str, slot: Slot) -> Iterator[tuple[int, str, str, str]]:
    """Two neighboring arguments of a call exchanged; the compiler checks their types."""
    for call in CALL.finditer(masked, slot.start, slot.end):
        if SYMMETRIC.search(call[1]) or call[1] in ("if", "while", "for", "switch", "sizeof"):
            continue
        pair = re.compile(rf"({ARGUMENT.pattern}), ({ARGUMENT.pattern})(?=[,)])")
        at = call.end()
        while True:
            found = pair.match(masked, at, slot.end)
            if not found:
                break
            if found[1] != found[2]:
                yield found.start(), found[0], f"{found[2]}, {found[1]}", "arguments"
            at = found.start(2)


def room_of(path: Path) -> str:
    """The component that a source belongs to, as in CONTRIBUTING.md: symbol, viewer/ranks."""
    folders = path.parent.parts
    return "/".join(folders[1:] if folders[0] == "src" else folders)


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def file_mutants(root: Path, path: Path) -> list[Mutant]:
    """All mutants of a source."""
    text = (root / path).read_text(encoding="utf-8")
    masked = mask(text)
    found = []
    equal = equal_boundaries(masked)
    for slot in slots(text, masked):
        for at, old, new, kind in changes(text, masked, slot, equal):
            end = at + len(old)
            first, last = text.rfind("\n", 0, at) + 1, text.find("\n", end)
            before = one_line(text[first:last])
            after = one_line(text[first:at] + new + text[end:last])
            line, slot_line = (text.count("\n", 0, place) + 1 for place in (at, slot.start))
            found.append(
                Mutant(
                    room_of(path), str(path), line, kind, at, old, new,
                    before, after, slot, slot_line,
                )  # fmt: skip
            )
    return found


def c_sources(root: Path) -> list[Path]:
    """The sources that are changed, relative to the root."""
    folders = [root / "src", root / "python" / "ext"]
    return sorted(path.relative_to(root) for folder in folders for path in folder.rglob("*.c"))


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many of `count` mutants each room gets: small rooms get more for their size."""
    weights = {room: size**0.5 for room, size in sizes.items()}
    total = sum(weights.values())
    return {room: max(1, round(count * weight / total)) for room, weight in weights.items()}


def sample_room(
    mutants: Iterable[Mutant], count: int, chance: random.Random, banned: Container[Key]
) -> Iterator[Mutant]:
    """At most one mutant for a line, with each kind as probable as another one."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in mutants:
        by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    lines = sorted(by_line)
    chance.shuffle(lines)
    for key in lines:
        kinds = sorted({mutant.kind for mutant in by_line[key]})
        kind = chance.choice(kinds)
        mutant = chance.choice([mutant for mutant in by_line[key] if mutant.kind == kind])
        if kinds == ["removal"] and chance.random() < 0.5:
            continue  # most lines are plain statements
        if count > 0 and mutant.key not in banned:
            yield mutant
            count -= 1


def sample(
    rooms: dict[str, list[Mutant]], seed: int, count: int, banned: Container[Key]
) -> list[Mutant]:
    """The mutants of a seed, of those in `rooms`."""
    chosen: list[Mutant] = []
    for room, number in shares({room: len(found) for room, found in rooms.items()}, count).items():
        chosen += sample_room(rooms[room], number, random.Random(f"{seed} {room}"), banned)
    return chosen


def all_mutants(root: Path, files: Iterable[Path]) -> dict[str, list[Mutant]]:
    """Every mutant of the files by room."""
    rooms: dict[str, list[Mutant]] = {}
    for path in files:
        rooms.setdefault(room_of(path), []).extend(file_mutants(root, path))
    return {room: found for room, found in rooms.items() if found}
