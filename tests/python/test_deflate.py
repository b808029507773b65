"""Compression (format/deflate): a gzip reader gets the same bytes, with zlib and without it."""

import gzip
import random
import subprocess
import zlib

import pytest
from built import BUILD
from cmd_support import environment

TOOL = BUILD / "tests" / "tools" / "compress"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="compress is not built")

NUMBERS = random.Random(1)
NOISE = NUMBERS.randbytes(300_000)
WORDS = [NUMBERS.randbytes(NUMBERS.randrange(3, 12)).hex() for _ in range(3000)]
CASES = {
    "nothing": b"",
    "one": b"x",
    "noise": NOISE,
    "zeros": bytes(600_000),
    "text": " ".join(NUMBERS.choice(WORDS) for _ in range(60_000)).encode(),
    "a stored block": NOISE[:65_535],
    "one more": NOISE[:65_536],
}


def compress(data: bytes, **changes: str) -> bytes:
    env = environment(**changes)
    done = subprocess.run([TOOL], input=data, capture_output=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert gzip.decompress(done.stdout) == data  # checks the sum and the length, too
    return done.stdout


@pytest.mark.parametrize("name", CASES)
def test_a_reader_gets_what_was_written(name):
    data = CASES[name]
    assert len(compress(data)) <= len(zlib.compress(data, 6)) + 100


@pytest.mark.parametrize("name", CASES)
def test_without_zlib_a_reader_gets_it_too(name, tmp_path):
    (tmp_path / "libz.so.1").write_text("no library")
    written = compress(CASES[name], LD_LIBRARY_PATH=str(tmp_path))
    assert len(written) >= len(CASES[name])
