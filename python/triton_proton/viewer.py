"""`python -m triton_proton.viewer …` is `proton-viewer …`."""

from __future__ import annotations

from ._programs import become


def main() -> None:
    """Run `proton-viewer` in place of this process."""
    become("proton-viewer")


if __name__ == "__main__":
    main()
