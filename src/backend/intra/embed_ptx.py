"""Makes a C source of the calibration kernel: embed_ptx.py KERNEL.ptx OUTPUT.c

Comments of the PTX contain the kernel's shared memory and its record layout: "// shared BYTES",
"// layout LINE". Lines between "// repeat TIMES" and "// end" are repeated, and a number
{FIRST+STEP} in them grows by STEP each time.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def literal(text: str) -> str:
    lines = (line.replace('"', '\\"') for line in text.splitlines())
    return "\n".join(f'\t"{line}\\n"' for line in lines)


def expand(text: str) -> str:
    """The PTX with all repetitions, and without comments."""

    def repeat(found: re.Match[str]) -> str:
        return "".join(
            re.sub(r"\{(\d+)\+(\d+)\}", lambda at: str(int(at[1]) + i * int(at[2])), found[2])
            for i in range(int(found[1]))
        )

    text = re.sub(r"^// repeat (\d+)\n(.*?)^// end\n", repeat, text, flags=re.M | re.S)
    return re.sub(r"^//.*\n", "", text, flags=re.M)


def main() -> None:
    source, output = (Path(argument) for argument in sys.argv[1:])
    text = source.read_text(encoding="utf-8")
    kernel = expand(text)
    layout = "".join(f"{line}\n" for line in re.findall(r"^// layout (.*)", text, re.M))
    shared = re.findall(r"^// shared (\d+)$", text, re.M)
    assert len(shared) == 1 and layout and kernel
    output.write_text(
        "/* Made by embed_ptx.py. */\n"
        '#include "backend/intra/calibrate_kernel.h"\n\n'
        f"const unsigned calibrate_shared_bytes = {shared[0]};\n"
        f"const char calibrate_kernel[] =\n{literal(kernel)};\n"
        f"const char calibrate_layout[] =\n{literal(layout)};\n"
        "const size_t calibrate_layout_bytes = sizeof(calibrate_layout) - 1;\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
