"""install_as_triton_profiler and the import hooks, with a Triton made of three files."""

import os
import sys
from pathlib import Path

import pytest

from support import run_command, script

FAKE = {
    "triton/__init__.py": "from . import knobs\n",
    "triton/knobs.py": "class runtime:\n    launch_enter_hook = None\n    launch_exit_hook = None\n"
    "    kernel_load_end_hook = None\n    kernel_unload_hook = None\n    interpret = False\n"
    "class proton:\n    disable = False\n",
    "triton/profiler/__init__.py": "from . import scope\nWHOSE = 'theirs'\n",
    "triton/profiler/scope.py": "WHOSE = 'theirs'\n",
    "triton/profiler/hooks.py": "WHOSE = 'theirs'\n",
}

# Code that PyTorch compiles gets no names, which waits for the import of its compiler.
ALONE = {"PROTON_COMPILED": "0"}


@pytest.fixture(autouse=True)
def fake_triton():
    for name, text in FAKE.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_all_forms_of_import():
    script("""
        import triton_proton as ours
        ours.install_as_triton_profiler()
        ours.install_as_triton_profiler()
        import triton.profiler as proton
        assert proton is ours
        import triton.profiler
        assert triton.profiler is ours
        from triton import profiler
        assert profiler is ours
        from triton.profiler import scope, specs, viewer
        assert scope is ours.scope and specs is ours.specs
        import triton.profiler.hooks.launch as launch
        from triton.profiler.hooks import LaunchHook, HookManager
        import triton_proton.hooks
        assert launch.LaunchHook is LaunchHook is triton_proton.hooks.LaunchHook
        import triton.profiler.mode
        assert triton.profiler.mode is ours.mode
        import triton.profiler.language as pl
        with pl.scope("x"):
            pl.enter_scope("y"); pl.exit_scope("y")
        try:
            pl.enable_semantic("klingon")
        except ValueError as error:
            assert "klingon" in str(error)
        # What the import system knows of our modules is what it was.
        assert ours.__spec__.name == "triton_proton" and ours.__name__ == "triton_proton"
        assert triton_proton.hooks.__spec__.name == "triton_proton.hooks"
        import importlib
        importlib.reload(ours.specs)
        try:
            import triton.profiler.nothing
        except ModuleNotFoundError as error:
            assert error.name == "triton.profiler.nothing"
        else:
            raise SystemExit("imported nothing")
        """)


def test_triton_imported_before():
    script("""
        import triton
        import triton_proton as ours
        ours.install_as_triton_profiler()
        assert triton.profiler is ours
        import triton.profiler as proton
        assert proton is ours
        """)


def test_their_profiler_imported_before_is_replaced():
    script("""
        import triton.profiler as theirs
        assert theirs.WHOSE == "theirs"
        import triton_proton as ours
        ours.install_as_triton_profiler()
        import triton, triton.profiler as proton
        from triton.profiler.hooks import HookManager
        import triton.profiler.scope
        assert proton is ours is triton.profiler
        assert theirs.scope.WHOSE == "theirs"
        """)


def test_without_the_call_triton_s_profiler_is_their_own():
    script("""
        import triton_proton
        import triton.profiler as proton
        assert proton.WHOSE == "theirs"
        """)


def test_without_triton_there_is_no_profiler_of_it():
    script("""
        import sys
        sys.modules["triton"] = None  # no import of it succeeds
        import triton_proton as ours
        ours.install_as_triton_profiler()
        try:
            import triton.profiler
        except ModuleNotFoundError as error:
            assert "triton" in str(error)
        else:
            raise SystemExit("imported")
        """)


def test_hooks_are_registered_when_triton_arrives_and_taken_back():
    script("""
        import sys
        import triton_proton as proton
        from triton_proton.hooks import HookManager
        session = proton.start("test", hook="triton", backend="host")
        finders = [type(finder).__name__ for finder in sys.meta_path]
        assert "_Watcher" in finders
        import triton
        runtime = triton.knobs.runtime
        assert runtime.launch_enter_hook is HookManager.enter
        proton.deactivate(session)
        assert runtime.launch_enter_hook is None
        proton.activate(session)
        assert runtime.launch_enter_hook is HookManager.enter
        proton.finalize()
        assert runtime.launch_enter_hook is None
        assert "_Watcher" not in [type(finder).__name__ for finder in sys.meta_path]
        """, env=ALONE)


def test_nothing_waits_after_the_last_session():
    script("""
        import sys
        before = list(sys.meta_path)
        import triton_proton as proton
        proton.start("test", hook="triton", backend="host")
        proton.finalize()
        assert sys.meta_path == before, sys.meta_path
        import triton
        assert triton.knobs.runtime.launch_enter_hook is None
        """, env=ALONE)


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_inductor_is_waited_for_unless_profiling_is_disabled(disabled):
    script(f"""
        import triton_proton as proton
        from triton_proton import _imports
        proton.finalize(proton.start("test", hook="triton", backend="host"))
        assert bool(_imports._waiting) != {disabled}, _imports._waiting
        inductor = {{"torch._inductor.compile_fx", "torch._inductor.scheduler"}}
        assert set(_imports._waiting) <= inductor
        """, env={"TRITON_PROTON_DISABLE": disabled})


def test_a_module_that_fails_to_import_fails_as_ever_and_may_be_tried_again():
    Path("triton/knobs.py").write_text("1 / 0\n")
    script(
        """
        import pathlib, sys
        import triton_proton as proton
        proton.start("test", hook="triton", backend="host")
        try:
            import triton
        except ZeroDivisionError:
            pass
        pathlib.Path("triton/knobs.py").write_text(
            "class runtime:\\n    launch_enter_hook = None\\nclass proton:\\n    disable = False\\n"
        )
        import importlib
        importlib.invalidate_caches()
        import triton
        assert triton.knobs.runtime.launch_enter_hook is not None
        """,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_importing_a_module_does_not_replace_the_function_of_its_name():
    script("""
        import triton_proton as ours
        ours.install_as_triton_profiler()
        import triton.profiler as proton
        from triton.profiler.profile import _select_backend
        from triton.profiler.scope import cpu_timed_scope
        import triton.profiler.state
        assert callable(proton.profile) and callable(proton.scope) and callable(proton.state)
        assert proton.profile is ours.profile
    """)


@pytest.mark.parametrize("module, program", [("proton", "proton"), ("viewer", "proton-viewer")])
def test_modules_run_with_option_m(module, program):
    """`python -m triton.profiler.proton`, where the alias is installed at start."""
    Path("sitecustomize.py").write_text(
        "import triton_proton\ntriton_proton.install_as_triton_profiler()\n"
    )
    done = run_command(
        [sys.executable, "-m", f"triton.profiler.{module}", "--version"],
        env=dict(os.environ, PYTHONPATH=os.getcwd()), status=None,
    )
    assert done.returncode == 0 and done.stdout.startswith(f"{program} "), done.stderr


def test_the_default_backend_has_a_name():
    """Upstream's own tests pass it to the extension of Triton's profiler."""
    script("""
        import os
        from triton_proton.profile import _select_backend
        from triton_proton._libproton import get_available_profilers
        os.environ.pop("PROTON_BACKEND", None)
        assert _select_backend() in get_available_profilers()
        os.environ["PROTON_BACKEND"] = "host"
        assert _select_backend() == "host"
    """)


def test_the_extension_is_protons_too():
    """A program that calls Triton's extension must not record with a second profiler."""
    (Path("triton") / "_C").mkdir()
    (Path("triton") / "_C" / "__init__.py").touch()
    (Path("triton") / "_C" / "libproton.py").write_text("WHOSE = 'theirs'\n")
    for before in ("", "import triton._C.libproton"):
        script(f"""
            {before}
            import triton_proton as ours
            ours.install_as_triton_profiler()
            import triton._C.libproton.proton as libproton
            from triton._C.libproton import proton
            from triton_proton import _libproton
            assert libproton is proton and libproton.start is _libproton.start
            assert not hasattr(libproton, "WHOSE")
            session = libproton.start("low", "shadow", "tree", "host")
            scope = libproton.record_scope()
            libproton.enter_scope(scope, "one")
            libproton.add_metrics(scope, {{"a": 1.0, "v": [1, 2]}})
            libproton.exit_scope(scope, "one")
            libproton.init_function_metadata(0, "f", [(0, "root")], [], "meta.json")
            libproton.enter_instrumented_op(0, 0, 0, 0)
            libproton.exit_instrumented_op(0, 0, 0, 0)
            libproton.destroy_function_metadata(0)
            libproton.finalize_all("hatchet")
            import json
            assert '"one"' in open("low.hatchet").read()
        """)
