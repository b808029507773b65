"""`python -m triton_proton …` is `proton …` with this Python."""

from __future__ import annotations

from ._programs import become

if __name__ == "__main__":
    become("proton")
