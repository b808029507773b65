"""`proton mcp`: requests of an agent, and lines that no agent sends."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import triton_proton as proton
from cmd_support import proton as run_proton
from triton_proton.mcp import _RUN, _TOOLS, VERSIONS, Server


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    proton.start(str(tmp_path / "a"), backend="host")
    with proton.scope("forward", {"flops16": 5}):
        pass
    proton.finalize()
    return tmp_path / "a.hatchet"


def talk(cwd: Path, *messages: dict, options: tuple[str, ...] = ()) -> list[dict]:
    """The answers of a server to the messages, in their order."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = run_proton("mcp", *options, cwd=cwd, stdin=lines)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(number: int, name: str, /, **arguments: str) -> dict:
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def ask(message: object, tools: dict = _TOOLS) -> dict:
    answer = Server(tools).answer(message if isinstance(message, str) else json.dumps(message))
    return json.loads(answer)


def test_a_conversation(profile, tmp_path):
    hello, tools, opened, top = talk(
        tmp_path, {"id": 1, "method": "initialize", "params": {"protocolVersion": VERSIONS[1]}},
        {"method": "notifications/initialized"}, {"id": "two", "method": "tools/list"},
        call(3, "open", file=str(profile)),
        call(4, "top", file=str(profile), view="scope", metrics="flops16"),
    )
    assert hello["result"]["protocolVersion"] == VERSIONS[1]
    assert hello["result"]["serverInfo"] == {"name": "proton", "version": proton.__version__}
    assert tools["id"] == "two"
    assert [tool["name"] for tool in tools["result"]["tools"]] == list(_TOOLS)
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools["result"]["tools"])
    assert not opened["result"]["isError"] and "flops16" in opened["result"]["content"][0]["text"]
    assert top["id"] == 4 and "forward" in top["result"]["content"][0]["text"]


def test_errors_of_the_viewer_are_answers(tmp_path):
    (answer,) = talk(tmp_path, call(1, "tree", file="nothing.hatchet"))
    assert answer["result"]["isError"]
    assert "nothing.hatchet: No such file" in answer["result"]["content"][0]["text"]


def test_every_tool_reads_a_profile(profile, tmp_path):
    given = {"file": str(profile), "base": str(profile)}
    asked = [
        call(number, name, **{key: given[key] for key in tool.required})
        for number, (name, tool) in enumerate(_TOOLS.items())
    ]
    before = sorted(tmp_path.iterdir())
    answers = talk(tmp_path, *asked)
    failed = [n for n, a in zip(_TOOLS, answers) if a["result"]["isError"]]
    assert failed == ["top", "source"]  # it has no kernels and no PC samples
    assert "PC samples" in answers[list(_TOOLS).index("source")]["result"]["content"][0]["text"]
    assert sorted(tmp_path.iterdir()) == before


def test_scripts_run_only_if_that_is_allowed(tmp_path):
    (tmp_path / "-script.py").write_text("import sys; print(sys.argv[1:])")
    asked = call(1, "run", script="-script.py", arguments="a b", name="out")
    (refused,) = talk(tmp_path, asked)
    assert refused["error"] == {"code": -32602, "message": "there is no tool 'run'"}
    tools, ran = talk(tmp_path, {"id": 0, "method": "tools/list"}, asked, options=("--allow-run",))
    assert tools["result"]["tools"][-1]["annotations"] == {"readOnlyHint": False}
    assert "['a', 'b']" in ran["result"]["content"][0]["text"]
    assert (tmp_path / "out.hatchet").exists()


@pytest.mark.parametrize(
    "message, code, text",
    [
        ("{", -32700, "the line is not JSON"),
        ("[" * 100000, -32700, "the line is not JSON"),
        ([], -32600, "the line is not a message of JSON-RPC 2.0"),
        ({"id": 1, "method": "ping"}, -32600, "the line is not a message of JSON-RPC 2.0"),
        ({"jsonrpc": "2.0", "id": 1, "method": "x"}, -32601, "there is no method 'x'"),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
            -32602,
            "the parameters are not an object",
        ),
        ({"jsonrpc": "2.0", **call(1, "top")}, -32602, "top has the argument 'file'"),
        ({"jsonrpc": "2.0", **call(1, "top", fil="a")}, -32602, "top has no argument 'fil'"),
        (
            {"jsonrpc": "2.0", **call(1, "top", file=[])},
            -32602,
            "the arguments of top are not texts",
        ),
    ],
)
def test_wrong_messages_get_an_error(message, code, text):
    assert ask(message)["error"] == {"code": code, "message": text}


def test_long_answers_are_cut_and_slow_ones_ended(monkeypatch):
    one = _RUN._replace(command=lambda _: ["proton-viewer", "--help"], required={})
    answer = ask({"jsonrpc": "2.0", **call(1, "slow")}, {"slow": one._replace(seconds=0)})
    assert answer["result"]["isError"]
    assert answer["result"]["content"][0]["text"] == "it took more than 0 s, and was ended"
    monkeypatch.setattr("triton_proton.mcp._TEXT_MAX", 100)
    answer = ask({"jsonrpc": "2.0", **call(1, "help")}, {"help": one})
    assert answer["result"]["content"][0]["text"].endswith(" more characters are not shown)")
    assert len(answer["result"]["content"][0]["text"]) < 160


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10,
)
requests = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "initialize", "x"])},
    optional={
        "id": json_values,
        "params": st.fixed_dictionaries(
            {}, optional={"name": json_values, "arguments": json_values}
        )
        | json_values,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.text() | json_values.map(json.dumps) | requests.map(json.dumps))
def test_any_line_has_an_answer_or_none(line):
    answer = Server({}).answer(line)
    assert answer is None or "\n" not in answer
    if answer is not None:
        assert {"jsonrpc", "id"} < json.loads(answer).keys()
