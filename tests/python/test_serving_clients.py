"""Clients that drive the package as inference servers do, with the fake driver."""

import sys
from pathlib import Path

import pytest

from fake_driver import CC, fake_environment
from support import run_command

pytest.importorskip("msgpack")
pytest.importorskip("triton")
from serving_orders import ORDERS  # noqa: E402

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")
HERE = Path(__file__).parent


@pytest.mark.parametrize("order", ORDERS)
def test_a_worker_with_the_order_of_calls_of_a_server(order, tmp_path):
    command = [sys.executable, HERE / "serving_orders.py", order]
    done = run_command(command, cwd=tmp_path, env=fake_environment(FAKE_CUDA_NO_CONTEXT="1"))
    assert done.stdout == f"{order}: ok\n"
    assert "lost" not in done.stderr


CONFIG = """
from vllm.config.utils import config

@config
class ProfilerConfig:
    profiler: str | None = None
    proton_profiler_dir: str = ""
    proton_mode: str | None = None
    proton_hook: str | None = None
    proton_data: str = "tree"
    proton_output_format: str | None = None
    proton_graph_attribution: bool = False
    delay_iterations: int = Field(default=0, ge=0)
"""
WRAPPER = """
import vllm.version
from vllm.config import ProfilerConfig
from vllm.logger import init_logger
from vllm.platforms import current_platform
from serving_client import DEFAULTS, Client, make_config

class ProtonProfilerWrapper(Client):
    def __init__(self, profiler_config: ProfilerConfig, worker_name: str) -> None:
        assert current_platform.device_type == "cuda" and not profiler_config.delay_iterations
        options = vars(profiler_config).items()
        options = {name.removeprefix("proton_"): value for name, value in options}
        options = {name: value for name, value in options.items() if name in DEFAULTS}
        super().__init__(make_config(profiler_config.proton_profiler_dir, **options), worker_name)

    def stop(self) -> None:
        try:
            super().stop()
        except Exception:
            init_logger("wrapper").exception("Failed to stop in %s.", "step")
"""


def run_checkout(folder: Path, config: str, wrapper: str, status: int) -> str:
    for name in ("config", "profiler"):
        (folder / "vllm" / name).mkdir(parents=True)
    (folder / "vllm/config/profiler.py").write_text(config)
    (folder / "vllm/profiler/wrapper.py").write_text(wrapper)
    done = run_command([sys.executable, HERE / "vllm_wrapper.py", folder], status=status)
    return done.stdout


def test_the_wrapper_of_a_checkout_runs_with_stubs(tmp_path):
    orders = [name for name in ORDERS if name != "parts"]
    expected = "".join(f"{name}: ok\n" for name in orders)
    assert run_checkout(tmp_path, CONFIG, WRAPPER, 0) == expected


def test_the_script_shows_what_a_checkout_lacks_and_logs(tmp_path):
    config = CONFIG.replace("    proton_graph_attribution: bool = False\n", "")
    wrapper = WRAPPER.replace("super().stop()", "super().stop(); raise OSError('disk full')")
    text = run_checkout(tmp_path, config, wrapper, 1)
    assert "graphs: not in this checkout\n" in text
    assert "Failed to stop in step. disk full" in text
    assert ": ok" not in text
