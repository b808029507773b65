"""The pytest plugin: fixture and marker `proton`, options --proton-save, -compare and -runs.

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
_RUNS = 5  # if profiles are compared or saved
_NAME_MAX = 180


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("proton", "Proton: profiles of tests with the fixture or marker proton")
    for name, text in (
        ("save", "add profiles of each such test that passes to its history in DIR"),
        ("compare", "fail such tests that are slower than their newest profiles in DIR"),
    ):
        group.addoption(f"--proton-{name}", metavar="DIR", help=text)
    text = f"with these options, call such tests once, then so often for profiles (default {_RUNS})"
    group.addoption("--proton-runs", metavar="N", type=int, default=_RUNS, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        "proton(limit=None, runs=None, **options): profile this test, which fails unless limit "
        "holds, as in 'time/ms < 3.0'; runs is instead of --proton-runs; options are those of "
        "triton_proton.start()",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test needs no parameter."""
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker("proton") and "proton" not in names:
        names.append("proton")


class Session:
    """The session around a test, or a call of it."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        self.paths: list[str] = []  # a profile per call; not the first of several
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        """Begin recording another call."""
        import triton_proton

        name = os.path.join(self._folder, f"test_{len(self.paths)}")
        self._loaded: Optional[Profile] = None
        self._number = triton_proton.start(name, **self._options)
        if self._number is None:
            pytest.skip("triton_proton is disabled, or the command proton records this run")
        self.paths.append(f"{name}.proton")

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
        self._loaded = self._loaded or triton_proton.load(self.paths[-1])
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
    options.pop("runs", None)
    if not options.get("backend"):
        _skip_without_gpu()
    with tempfile.TemporaryDirectory(prefix="proton-") as folder:
        session = Session(folder, options)
        try:
            yield session
        finally:
            session.stop()


def _session(item: pytest.Item) -> Optional[Session]:
    session = getattr(item, "funcargs", {}).get("proton")
    return session if isinstance(session, Session) else None


_repeated = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Call a test several times, if its times are compared: one call cannot show noise. The first
    call compiles and tunes kernels, and does not count."""
    result = yield
    config, session = pyfuncitem.config, _session(pyfuncitem)
    is_kept = config.getoption("--proton-save") or config.getoption("--proton-compare")
    runs = _marked(pyfuncitem).get("runs") or (config.getoption("--proton-runs") if is_kept else 1)
    if session is None or runs < 2 or _repeated in pyfuncitem.stash:
        return result
    pyfuncitem.stash[_repeated] = True
    for _ in range(runs):
        session.stop()
        session.start()
        pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)
    del session.paths[0]
    return result


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


def _runs_of(folder: Path, number: int) -> list[Path]:
    """The profiles that were saved together."""
    return [folder / f"{number:04}.proton", *sorted(folder.glob(f"{number:04}.*.proton"))]


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
                with open(session.paths[0], "rb") as source:
                    shutil.copyfileobj(source, target)
            break
        except FileExistsError:
            continue
    for run, path in enumerate(session.paths[1:], 2):
        shutil.copyfile(path, folder / f"{number:04}.{run}.proton")


def _judge(item: pytest.Item, session: Session) -> list[str]:
    """The viewer's messages about limits that do not hold."""
    from triton_proton import load

    values, changes = _limits(item)
    lines = session.profile.failures(*values) if values else []
    folder = _history(item, "--proton-compare")
    numbers = _numbers(folder) if folder else []
    if folder and numbers:
        base = load(_runs_of(folder, numbers[-1]), merge="mean")
        changed = load(session.paths, merge="mean").diff(base)
        lines += changed.failures(*(changes or [_REGRESSION]))
    return lines


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After the test has passed: judge its limits, then keep its profile."""
    session = _session(item)
    if session is None or getattr(item, "_excinfo", None):
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
