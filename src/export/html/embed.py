"""Makes a C source of the report's page: embed.py report.html report.css SCRIPT.js... OUTPUT.c

The page names the places: {{css}}, {{js}}, {{policy}} and, where it is cut in two, {{profile}}. The
scripts share one scope, in the order in which they are given.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from pathlib import Path

BYTES_PER_LINE = 20


def array(name: str, text: str) -> str:
    data = text.encode("utf-8")
    lines = [
        "\t" + " ".join(f"{byte if byte < 128 else byte - 256}," for byte in data[at : at + 20])
        for at in range(0, len(data), BYTES_PER_LINE)
    ]
    body = "\n".join(lines)
    return (
        f"const size_t {name}_bytes = {len(data)};\n"
        f"const char {name}[] = {{\n{body}\n}};\n"
    )


def read(parts: list[Path]) -> str:
    texts = [part.read_text(encoding="utf-8") for part in parts]
    for part, text in zip(parts, texts):
        assert "</s" not in text, f"{part} would end the element that contains it"
    return "\n".join(texts)


def policy_of(text: str) -> str:
    """Nothing but the page's own script and style; the profile is JSON, which is not executed."""
    sources = []
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources.append(f"{element}-src 'sha256-{digest}'")
    return "; ".join(["default-src 'none'", *sources, "base-uri 'none'", "form-action 'none'"])


def main() -> None:
    page, css, *scripts, output = (Path(argument) for argument in sys.argv[1:])
    text = page.read_text(encoding="utf-8")
    script = f'"use strict";\n(async () => {{\n{read(scripts)}}})();\n'
    for place, part in (("{{css}}", read([css])), ("{{js}}", script)):
        assert text.count(place) == 1, place
        text = text.replace(place, part)
    assert text.count("{{policy}}") == 1
    text = text.replace("{{policy}}", policy_of(text))
    head, separator, tail = text.partition("{{profile}}")
    assert separator
    output.write_text(
        "/* Made by embed.py. */\n"
        '#include "export/export_view.h"\n\n'
        + array("html_page_head", head)
        + array("html_page_tail", tail),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
