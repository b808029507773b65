"""Writes the entry points of a fake vendor library from the list of its symbols in src/.

    make_entries.py SYMBOLS.def OUT.c [PREFIX]

Each symbol (of libcuda: for recording) becomes an exported function that first asks faults.c
whether this call shall fail, and then calls fake_SYMBOL(). A symbol without such a function
succeeds and does nothing. So a test can make any symbol fail that the backend uses. Exported names
get the prefix, if there is one.
"""

import re
import sys
from pathlib import Path

# V(name, (arguments)), or F, O, S; and X(name, version, (arguments), users): those for recording.
SYMBOL = re.compile(
    r"^(?:[FOSV]\((\w+)()|X\((\w+), (\w*)),\s*\(([^()]*)\)(?:\)|,\s*FOR_RECORDING.*\))$",
    re.MULTILINE,
)

ENTRY = """
__attribute__((visibility("default"))) int PREFIXNAME(ARGUMENTS);
int PREFIXNAME(ARGUMENTS)
{
    int code;

    if (fault_strikes(INDEX, &code))
        return code;
    return fake_NAME ? fake_NAME(VALUES) : 0;
}
"""


def names_of(arguments: str) -> str:
    if arguments == "void":
        return ""
    return ", ".join(re.search(r"(\w+)$", a.strip()).group(1) for a in arguments.split(","))


def main() -> None:
    definition, source, *rest = sys.argv[1:]
    prefix = rest[0] if rest else ""
    header = "fake/sdk_entries.h" if prefix else "fake/entries.h"
    symbols = [
        ("".join(name), " ".join(arguments.split()))
        for *name, arguments in SYMBOL.findall(Path(definition).read_text(encoding="utf-8"))
    ]
    if not symbols:
        sys.exit(f"{definition} has no symbols")
    parts = [f'#include "{header}"\n#include "fake/faults.h"\n']
    parts.append("const char *const fault_entries[] = {\n")
    parts += [f'    "{name}",\n' for name, _ in symbols]
    parts.append(f"}};\nconst size_t fault_entry_count = {len(symbols)};\n")
    for index, (name, arguments) in enumerate(symbols):
        entry = ENTRY.replace("ARGUMENTS", arguments).replace("VALUES", names_of(arguments))
        entry = entry.replace("PREFIX", prefix).replace("NAME", name)
        parts.append(entry.replace("INDEX", str(index)))
    Path(source).write_text("".join(parts), encoding="utf-8")


main()
