"""`proton mcp`: profiles for coding agents, over the Model Context Protocol.

A server on standard input and output, one JSON-RPC message per line, as the protocol's transport
"stdio" (modelcontextprotocol.io/specification). Its tools print what `proton-viewer` prints. They
only read, but for `run`, which is there with --allow-run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, TextIO

from . import _libproton
from ._programs import find_program

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
_TEXT_MAX = 20000  # characters of an answer
_VIEW_S = 120
_RUN_S = 600
_MESSAGE_MAX = 1 << 20  # characters of a request
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMETERS = -32700, -32600, -32601, -32602

_Arguments = dict[str, Any]


class _Tool(NamedTuple):
    description: str
    required: dict[str, str]  # parameters and what they are; all are text
    optional: dict[str, str]
    command: Callable[[_Arguments], list[str]]
    seconds: int = _VIEW_S
    is_read_only: bool = True


class _Failure(Exception):
    """The code and the text of a JSON-RPC error."""


def _viewer(*options: str) -> Callable[[_Arguments], list[str]]:
    return lambda given: ["proton-viewer", "--color=never", *options, "--", given["file"]]


def _top(given: _Arguments) -> list[str]:
    options = [f"--metrics={given['metrics']}"] if "metrics" in given else []
    if "include" in given:
        options.append(f"--include={given['include']}")
    kind = "--top" if given.get("view", "top") == "top" else f"--group={given['view']}"
    return _viewer(kind, *options)(given)


def _tree(given: _Arguments) -> list[str]:
    return _viewer(f"--depth={given.get('depth', '6')}")(given)


def _source(given: _Arguments) -> list[str]:
    return _viewer(f"--source={given['kernel']}" if "kernel" in given else "--source")(given)


def _run(given: _Arguments) -> list[str]:
    words = given.get("arguments", "").split()
    name = [f"--name={given['name']}"] if "name" in given else []
    script = given["script"]
    return ["proton", *name, f"./{script}" if script.startswith("-") else script, *words]


_FILE = {"file": "path of a profile or of a job's directory"}
_TOOLS = {
    "open": _Tool("The metrics of a profile, and what it lacks.", _FILE, {}, _viewer("--list")),
    "brief": _Tool(
        "Claims about slow kernels, with their evidence and the bound of what can be gained.",
        _FILE,
        {},
        _viewer("--brief", "--markdown"),
    ),
    "tree": _Tool("Time per calling context.", _FILE, {"depth": "levels, 6 by default"}, _tree),
    "top": _Tool(
        "A flat table, the largest first.",
        _FILE,
        {
            "view": "top (kernels), scope, file, module, layer, operator, shape or device",
            "metrics": "such as time/ms,count,util",
            "include": "a regular expression of frames",
        },
        _top,
    ),
    "source": _Tool(
        "PC samples and stall reasons per source line.", _FILE, {"kernel": "its name"}, _source
    ),
    "diff": _Tool(
        "Changes since a base, the largest first.",
        {**_FILE, "base": "path of the profile to compare with"},
        {},
        lambda given: _viewer(f"--diff={given['base']}")(given),
    ),
}
_RUN = _Tool(
    "Run a Python script and record it; the profile is NAME.hatchet.",
    {"script": "path of the script"},
    {"arguments": "its arguments, separated by blanks", "name": "output path without suffix"},
    _run,
    _RUN_S,
    is_read_only=False,
)


def _describe(name: str, tool: _Tool) -> dict[str, Any]:
    texts = {**tool.required, **tool.optional}
    return {
        "name": name,
        "description": tool.description,
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": "string", "description": texts[key]} for key in texts},
            "required": list(tool.required),
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": tool.is_read_only},
    }


def _execute(tool: _Tool, given: _Arguments) -> tuple[bool, str]:
    """Whether the command failed, and what it printed, cut to what an answer may have."""
    command = tool.command(given)
    program = find_program(command[0])
    if program is None:
        return True, f"the program '{command[0]}' is not installed next to {sys.executable}"
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=tool.seconds,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return True, f"it took more than {tool.seconds} s, and was ended"
    text = done.stdout
    if len(text) > _TEXT_MAX:
        text = text[:_TEXT_MAX] + f"\n({len(text) - _TEXT_MAX} more characters are not shown)"
    return done.returncode != 0, text


class Server:
    """Answers messages. `tools` by name."""

    def __init__(self, tools: dict[str, _Tool]) -> None:
        self._tools = tools

    def answer(self, line: str) -> Optional[str]:
        """The answer to a line; None if it is a notification or a response."""
        number = None
        try:
            message = self._read(line)
            number = message.get("id")
            result = self._call(message.get("method"), message.get("params") or {})
            if number is None:
                return None
            reply: dict[str, Any] = {"result": result}
        except _Failure as error:
            code, text = error.args
            reply = {"error": {"code": code, "message": text}}
            if number is None and code == _NO_METHOD:
                return None
        return json.dumps({"jsonrpc": "2.0", "id": number, **reply})

    @staticmethod
    def _read(line: str) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise _Failure(_PARSE_ERROR, "the line is not JSON") from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise _Failure(_INVALID_REQUEST, "the line is not a message of JSON-RPC 2.0")
        return message

    def _call(self, method: Any, parameters: Any) -> Any:
        if not isinstance(parameters, dict):
            raise _Failure(_INVALID_PARAMETERS, "the parameters are not an object")
        if method == "initialize":
            asked = parameters.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "proton", "version": _libproton.version()},
            }
        if method == "tools/list":
            return {"tools": [_describe(name, tool) for name, tool in self._tools.items()]}
        if method == "tools/call":
            return self._use(parameters.get("name"), parameters.get("arguments") or {})
        if method == "ping":
            return {}
        raise _Failure(_NO_METHOD, f"there is no method {method!r}")

    def _use(self, name: Any, given: Any) -> dict[str, Any]:
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _Failure(_INVALID_PARAMETERS, f"there is no tool {name!r}")
        known = {**tool.required, **tool.optional}
        if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
            raise _Failure(_INVALID_PARAMETERS, f"the arguments of {name} are not texts")
        wrong = [key for key in given if key not in known]
        missing = [key for key in tool.required if key not in given]
        if wrong or missing:
            what = f"no argument {wrong[0]!r}" if wrong else f"the argument {missing[0]!r}"
            raise _Failure(_INVALID_PARAMETERS, f"{name} has {what}")
        failed, text = _execute(tool, given)
        return {"content": [{"type": "text", "text": text}], "isError": failed}


def serve(server: Server, lines: TextIO, answers: TextIO) -> None:
    """Until the end of `lines`."""
    while line := lines.readline(_MESSAGE_MAX):
        if not line.strip():
            continue
        if (answer := server.answer(line)) is not None:
            answers.write(answer + "\n")
            answers.flush()


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="proton mcp",
        description="Serve profiles to coding agents by the Model Context Protocol (stdio).",
    )
    parser.add_argument(
        "--allow-run", action="store_true", help="also a tool that runs scripts and records them"
    )
    options = parser.parse_args(arguments)
    tools = {**_TOOLS, "run": _RUN} if options.allow_run else _TOOLS
    try:
        serve(Server(tools), sys.stdin, sys.stdout)
    except (KeyboardInterrupt, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
