"""`python -m triton_proton.proton …` is `proton …` with this Python."""

from __future__ import annotations

from ._programs import become


def main() -> None:
    """Run the `proton` command in place of this process."""
    become("proton")


if __name__ == "__main__":
    main()
