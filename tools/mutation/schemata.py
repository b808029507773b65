"""All mutants in one build: each is beside the original text, in a choice that a number makes.

The number is in a page of memory that the mutated code shares with the program that runs the tests,
and so is a byte for each mutant that says whether its place was reached. Every process that a test
starts must find its page, whatever becomes of its environment and descriptors: the soft limit of
RLIMIT_RSS, which Linux ignores and children inherit, is the page's number.
"""

from __future__ import annotations

import mmap
import re
import resource
from pathlib import Path
from typing import Iterable, Optional

from mutation.operators import Mutant
from mutation.slots import CONDITION, STATEMENT, VOID

PAGE_BYTES = 16384
PAGES = 256
MUTANTS_MAX = PAGE_BYTES - 4

# A mutant with other types of pointers is the compiler's, not the tests'.
PRELUDE = r"""#include <sys/syscall.h>
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
struct mut_page_ { volatile int id; volatile unsigned char reached[PAGE_BYTES - 4]; };
__attribute__((weak, visibility("hidden"))) struct mut_page_ *mut_page_;
__attribute__((weak, visibility("hidden"))) struct mut_page_ mut_none_;
long syscall(long number, ...);
__attribute__((weak, visibility("hidden"), constructor(101))) void mut_start_(void)
{
    unsigned long limits[2];
    long fd, at = -1;

    if (mut_page_)
        return;
    mut_page_ = &mut_none_;
    if (syscall(SYS_prlimit64, 0, 5, 0, limits) != 0 || limits[0] >= PAGES)
        return;
    fd = syscall(SYS_openat, -100, "PAGE_FILE", 02000002, 0);
    if (fd >= 0) {
        at = syscall(SYS_mmap, 0, PAGE_BYTES, 3, 1, fd, limits[0] * PAGE_BYTES);
        syscall(SYS_close, fd);
    }
    if (at > 0)
        mut_page_ = (struct mut_page_ *)at;
}
static inline int mut_(int k)
{
    if (!mut_page_)
        mut_start_();
    if (!mut_page_->reached[k])
        mut_page_->reached[k] = 1;
    return mut_page_->id == k;
}
"""


def changed(mutant: Mutant, text: str) -> str:
    """The text of the mutant's slot, with the change."""
    end = mutant.at + len(mutant.old)
    return text[mutant.slot.start : mutant.at] + mutant.new + text[end : mutant.slot.end]


def choice(numbered: list[tuple[int, Mutant]], text: str) -> str:
    """The code in the place of a slot that has mutants."""
    slot = numbered[0][1].slot
    original = text[slot.start : slot.end]
    if slot.kind == STATEMENT:
        cases = "".join(f"if (mut_({k})) {{ {changed(m, text)} }} else " for k, m in numbered)
        return f"{{ {cases}{{ {original} }} }}"
    cast = {VOID: "(void)", CONDITION: "!!"}.get(slot.kind, "")
    cases = "".join(f"mut_({k}) ? {cast}({changed(m, text)}) : " for k, m in numbered)
    if slot.keyword == "switch":
        cases = cases.replace("!!", "")
        cast = ""
    return f"{cases}{cast}({original})"


def mutated(text: str, numbered: Iterable[tuple[int, Mutant]], page_file: Path) -> str:
    """A source with its mutants; line numbers stay."""
    by_slot: dict[int, list[tuple[int, Mutant]]] = {}
    for k, mutant in numbered:
        by_slot.setdefault(mutant.slot.start, []).append((k, mutant))
    for start, found in sorted(by_slot.items(), reverse=True):
        end = found[0][1].slot.end
        lines = text.count("\n", start, end)
        # One line for the choice: later lines keep their numbers.
        new = re.sub(r"\s*\n\s*", " ", without_comments(choice(found, text)))
        text = text[:start] + new + "\n" * lines + text[end:]
    prelude = PRELUDE.replace("PAGE_FILE", str(page_file)).replace("PAGE_BYTES", str(PAGE_BYTES))
    return prelude.replace("PAGES", str(PAGES)) + "#line 1\n" + text


def without_comments(code: str) -> str:
    """C code without // comments, which would hide what follows in one line."""
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*', lambda found: found[1] or "", code)


class Page:
    """One page of the file, as the program that runs the tests sees it."""

    def __init__(self, page_file: Path, number: int) -> None:
        self.number = number
        with page_file.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), PAGE_BYTES, offset=number * PAGE_BYTES)

    def use(self) -> None:
        """Programs that this process starts find this page."""
        _, hard = resource.getrlimit(resource.RLIMIT_RSS)
        resource.setrlimit(resource.RLIMIT_RSS, (self.number, hard))

    def switch(self, mutant: int) -> None:
        """Turn one mutant on; 0: none."""
        self.memory[0:4] = mutant.to_bytes(4, "little")

    def clear(self) -> None:
        """No mutant was reached."""
        self.memory[4:] = bytes(PAGE_BYTES - 4)

    def reached(self) -> list[int]:
        """The numbers of the mutants that were reached since clear()."""
        seen = self.memory[4:]
        return [k for k in range(len(seen)) if seen[k]]


def own_page(page_file: Path) -> Optional[Page]:
    """The page of this process, if it has one."""
    number, _ = resource.getrlimit(resource.RLIMIT_RSS)
    return Page(page_file, number) if 0 <= number < PAGES else None


def make_pages(page_file: Path) -> None:
    """A new file of pages."""
    page_file.write_bytes(bytes(PAGES * PAGE_BYTES))
