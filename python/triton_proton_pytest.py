"""The pytest plugin: fixture and marker `proton`, options --proton-save and --proton-compare.

pytest imports this module in every run, so it is outside of the package, which loads the recorder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional

import pytest

if TYPE_CHECKING:
    from triton_proton.reader import Profile

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_REGRESSION = "time > +5%"
_NAME_MAX = 180


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("proton", "Proton: profiles of tests with the fixture or marker proton")
    for name, text in (
        ("save", "add a profile of each such test that passes to its history in DIR"),
        ("compare", "fail such tests that are slower than their newest profile in DIR"),
    ):
        group.addoption(f"--proton-{name}", metavar="DIR", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        "proton(limit=None, **options): profile this test, which fails unless limit holds, as in "
        "'time/ms < 3.0'; options are those of triton_proton.start()",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test needs no parameter."""
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker("proton") and "proton" not in names:
        names.append("proton")


class Session:
    """The session around a test."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        import triton_proton

        self.path = os.path.join(folder, "test.proton")
        self._loaded: Optional[Profile] = None
        self._number = triton_proton.start(os.path.join(folder, "test"), **options)
        if self._number is None:
            pytest.skip("triton_proton is disabled, or the command proton records this run")

    def stop(self) -> None:
        """End recording; the end of the test does it, too."""
        import triton_proton

        if self._number is not None:
            number, self._number = self._number, None
            triton_proton.finalize(number, "proton")

    @property
    def profile(self) -> Profile:
        """The profile of the test up to here. Ends recording."""
        import triton_proton

        self.stop()
        self._loaded = self._loaded or triton_proton.load(self.path)
        return self._loaded


def _skip_without_gpu() -> None:
    from triton_proton.profile import _select_backend

    if not os.environ.get("PROTON_BACKEND") and _select_backend() == "host":
        pytest.skip("no usable GPU driver found; PROTON_BACKEND=host profiles the CPU")


def _marked(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker("proton")
    return dict(marker.kwargs) if marker else {}


@pytest.fixture
def proton(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Records the test; `proton.profile` ends that and is the triton_proton.Profile."""
    options = _marked(request.node)
    options.pop("limit", None)
    if not options.get("backend"):
        _skip_without_gpu()
    with tempfile.TemporaryDirectory(prefix="proton-") as folder:
        session = Session(folder, options)
        try:
            yield session
        finally:
            session.stop()


# ---------------------------------------------------------------------- judging


def _limits(item: pytest.Item) -> tuple[list[str], list[str]]:
    """Gates about values, and about changes: a gate is true if its limit does not hold."""
    given = _marked(item).get("limit") or []
    limits = [given] if isinstance(given, str) else list(given)
    gates = [re.sub("[<>]=?", lambda sign: _NEGATED[sign[0]], one, count=1) for one in limits]
    changes = [gate for gate in gates if re.search(r"[<>]=?\s*[+-]", gate)]
    return [gate for gate in gates if gate not in changes], changes


def _history(item: pytest.Item, option: str) -> Optional[Path]:
    """The folder of a test's profiles; None without the option."""
    directory = item.config.getoption(option)
    if directory is None:
        return None
    name = re.sub(r"[^\w.-]+", "_", item.nodeid)[:_NAME_MAX]
    check = zlib.crc32(item.nodeid.encode())  # two tests can have one name
    return item.config.invocation_params.dir / directory / f"{name}-{check:08x}"


def _numbers(folder: Path) -> list[int]:
    names = (path.stem for path in folder.glob("*.proton"))
    return sorted(int(name) for name in names if name.isdecimal())


def _save(session: Session, folder: Path) -> None:
    """As the next number; another process may have it first."""
    folder.mkdir(parents=True, exist_ok=True)
    number = max(_numbers(folder), default=0)
    while True:
        number += 1
        try:
            with open(folder / f"{number:04}.proton", "xb") as target:
                with open(session.path, "rb") as source:
                    shutil.copyfileobj(source, target)
            return
        except FileExistsError:
            continue


def _judge(item: pytest.Item, session: Session) -> list[str]:
    """The viewer's messages about limits that do not hold."""
    from triton_proton import load

    values, changes = _limits(item)
    lines = session.profile.failures(*values) if values else []
    folder = _history(item, "--proton-compare")
    numbers = _numbers(folder) if folder else []
    if folder and numbers:
        changed = session.profile.diff(load(folder / f"{numbers[-1]:04}.proton"))
        lines += changed.failures(*(changes or [_REGRESSION]))
    return lines


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After the test has passed: judge its limits, then keep its profile."""
    session = getattr(item, "funcargs", {}).get("proton")
    if not isinstance(session, Session) or getattr(item, "_excinfo", None):
        return
    from triton_proton import ProtonError

    session.stop()
    try:
        lines = _judge(item, session)
    except ProtonError as error:
        lines = [str(error)]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
    folder = _history(item, "--proton-save")
    if folder:
        _save(session, folder)
