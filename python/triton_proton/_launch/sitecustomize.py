"""Start the recorder in the Python that the `proton` command runs, then get out of the way.

Python imports a module of this name once at start-up, before the script. `proton` puts this
directory in front of PYTHONPATH for one process; this module takes it, and everything else that
`proton` left in the environment and children do not need, out again. The script then runs as it
would have without us: the interpreter itself sets up sys.argv, sys.path and __main__, prints
tracebacks and decides the exit status.
"""


def _launch() -> None:
    import os
    import sys

    prefix = "PROTON_RUN_"
    here = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)

    # PROTON_PYTHON may be a wrapper written in Python: what was asked for is for the one it starts.
    options = None
    if os.environ.get(prefix + "PYTHON") == sys.executable:
        names = [name for name in os.environ if name.startswith(prefix)]
        options = {name[len(prefix) :].lower(): os.environ[name] for name in names}
        # With a PID, the driver brings the recorder into children, which look for the rest then.
        own = ("PYTHON", "PYTHONPATH", "HOOK", "CONTEXT", "VIEWER")
        for name in names:
            if "pid" not in options or name[len(prefix) :] in own:
                del os.environ[name]
        path_before = options.pop("pythonpath", None)
        if path_before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = path_before

    # The machine's or the user's own module of this name comes first, as it would have.
    error = None
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # noqa: F401
    except Exception as raised:
        error = raised
    if options is not None:
        from triton_proton import _runner

        _runner.start(options)
    if error is not None:
        # With no other sitecustomize this is the ImportError that Python expects in that case.
        raise error


def _launch_or_leave() -> None:
    try:
        _launch()
    except KeyboardInterrupt:
        # Out of here, Python would make a fatal error with a traceback of it.
        import os
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


_launch_or_leave()
