"""Start-up module that starts the recorder in the Python of the `proton` command, then removes
itself.

Python imports a module of this name at start-up, before the script. `proton` puts this directory at
the front of PYTHONPATH for one process. This module removes it again, with all environment
variables of `proton` that children do not need. The script then runs as without Proton: the
interpreter sets up sys.argv, sys.path and __main__, prints tracebacks and determines the exit
status.
"""


def _launch() -> None:
    import os
    import sys

    prefix = "PROTON_RUN_"
    here = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)

    # PROTON_PYTHON may be a wrapper written in Python: the options are for the one that it starts.
    options = None
    if os.environ.get(prefix + "PYTHON") == sys.executable:
        names = [name for name in os.environ if name.startswith(prefix)]
        options = {name[len(prefix) :].lower(): os.environ[name] for name in names}
        # With a PID, the driver loads the recorder into children, which need the other variables.
        own = ("PYTHON", "PYTHONPATH", "HOOK", "CONTEXT", "VIEWER")
        for name in names:
            if "pid" not in options or name[len(prefix) :] in own:
                del os.environ[name]
        path_before = options.pop("pythonpath", None)
        if path_before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = path_before

    # The machine's or the user's own module of this name is imported first, as usual.
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
        # Without another sitecustomize, Python expects this ImportError.
        raise error


def _launch_or_leave() -> None:
    try:
        _launch()
    except KeyboardInterrupt:
        # An exception here would become a fatal error of Python with a traceback.
        import os
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


_launch_or_leave()
