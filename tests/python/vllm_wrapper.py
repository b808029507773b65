"""Run the profiler wrapper of a vLLM checkout on this package, with the fake driver.

    .venv/bin/python tests/python/vllm_wrapper.py CHECKOUT [ORDER]

Only vllm/profiler of the checkout is imported; its config is made of the defaults that the
checkout's text has, and everything else of vLLM is replaced by stubs. ORDER is one of
serving_orders.py; without it, all that the checkout knows run.
"""

import ast
import importlib.abc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

problems: list[str] = []  # logged instead of raised


class Logger:
    """Any method; those that report something are kept."""

    def __getattr__(self, name: str) -> Any:
        def log(text: str, *values: Any) -> None:
            if name.removesuffix("_once") in ("warning", "error", "exception"):
                problems.append(f"{text % values} {sys.exc_info()[1] or ''}")

        return log


class Stub(ModuleType):
    """A module with any name in it."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The checkout's vllm.profiler, and stubs for the rest of vLLM and a torch that is missing."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.startswith("vllm.profiler."):
            file = self.checkout.joinpath(*fullname.split(".")).with_suffix(".py")
            return importlib.util.spec_from_file_location(fullname, file)
        if fullname.split(".")[0] in ("vllm", "torch"):
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = Stub(spec.name)
        if spec.name == "vllm.logger":
            module.init_logger = lambda name: Logger()
        if spec.name == "vllm.platforms":
            module.current_platform = SimpleNamespace(device_type="cuda")
        if spec.name == "torch":
            module.version = SimpleNamespace(hip=None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def read_defaults(checkout: Path) -> dict[str, Any]:
    """The fields of ProfilerConfig with their defaults."""
    text = (checkout / "vllm/config/profiler.py").read_text(encoding="utf-8")
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    (config,) = [node for node in classes if node.name == "ProfilerConfig"]
    defaults = {}
    for line in config.body:
        if not isinstance(line, ast.AnnAssign) or line.value is None:
            continue
        value = line.value
        if isinstance(value, ast.Call):
            value = next(word.value for word in value.keywords if word.arg == "default")
        defaults[line.target.id] = ast.literal_eval(value)
    return defaults


def make_client(checkout: Path, directory: str, **options: Any) -> Any:
    from vllm.profiler.wrapper import ProtonProfilerWrapper

    values = read_defaults(checkout)
    given = {f"proton_{name}": value for name, value in options.items()}
    given.update(profiler="proton", proton_profiler_dir=directory)
    assert given.keys() <= values.keys(), f"this checkout has no {given.keys() - values.keys()}"
    return ProtonProfilerWrapper(SimpleNamespace(**{**values, **given}), worker_name="rank0")


def run(checkout: Path, name: str) -> None:
    import triton_proton
    from serving_orders import ORDERS

    triton_proton.install_as_triton_profiler()
    sys.meta_path.append(Finder(checkout))
    ORDERS[name](lambda directory, **options: make_client(checkout, directory, **options))
    assert not problems, problems
    print(f"{name}: ok", flush=True)


def run_all(checkout: Path) -> int:
    import tempfile

    from fake_driver import fake_environment
    from serving_orders import ORDERS
    from support import run_command

    env = fake_environment(FAKE_CUDA_NO_CONTEXT="1")
    status = 0
    for name in ORDERS:
        if name == "parts":  # no release of vLLM has it
            continue
        if name == "graphs" and "proton_graph_attribution" not in read_defaults(checkout):
            print("graphs: not in this checkout")
            continue
        with tempfile.TemporaryDirectory() as directory:
            words = [sys.executable, Path(__file__).resolve(), checkout, name]
            done = run_command(words, cwd=directory, env=env, status=None)
        print(done.stdout + (done.stderr if done.returncode else ""), end="", flush=True)
        status |= done.returncode != 0
    return status


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1], "vllm/profiler/wrapper.py").exists():
        sys.exit("usage: vllm_wrapper.py CHECKOUT [ORDER], with the path of a checkout of vLLM")
    place = Path(sys.argv[1]).resolve()
    sys.exit(run(place, sys.argv[2]) if len(sys.argv) == 3 else run_all(place))
