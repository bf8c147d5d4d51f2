"""A yes to a command is one in the sandbox, without network: leaving it, and each host, is asked as that.

Each row is what was allowed or granted before, in which sandbox, and the call that comes then. The yes
was for running `make test`; the Makefile is the model's by now.
"""

from pathlib import Path
from typing import Any

import msgspec
from tables import table
from toolbench import Bench, Said

from midstream.runtime.ports import Review
from midstream.safety.capability import SHOWN, PermissionMode, SandboxLevel
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager
from midstream.tools.shell import terminal_tool


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One call, what was allowed before it, and what a person has to be asked about it at least."""

    command: str = "make test"
    also: dict[str, Any] = msgspec.field(default_factory=dict)
    mode: PermissionMode = "auto"
    level: SandboxLevel = "full"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    asks: str


OUT: dict[str, Any] = {"sandbox": False}
LINE = "cd web && make test"
LEAVING: dict[str, Try] = {
    "an allow rule, then outside": Try(
        allow=("exec: make test",), also=OUT, asks="outside: make test"
    ),
    "an allow rule with a star, then outside": Try(
        allow=("exec: make *",), also=OUT, asks="outside: make test"
    ),
    "an allow rule for everything, then outside": Try(
        allow=("exec: *", "shell: *"), also=OUT, asks="outside: make test"
    ),
    "in ask: an allow rule, then outside": Try(
        mode="ask", allow=("exec: make test",), also=OUT, asks="outside: make test"
    ),
    "granted in the sandbox, then outside": Try(
        mode="ask", granted=("exec: make test",), also=OUT, asks="outside: make test"
    ),
    "granted by an older version, then outside": Try(
        granted=("sandboxed exec: make test", "exec: make test"),
        also=OUT,
        asks="outside: make test",
    ),
    "granted outside, then another outside": Try(
        granted=("exec: make all", "outside: make all"), also=OUT, asks="outside: make test"
    ),
    "the tool's name allowed, then outside": Try(
        granted=("execute_terminal",), also=OUT, asks="outside: make test"
    ),
    "the tool's name allowed, then the sandbox is none": Try(
        level="none", granted=("execute_terminal",), asks="outside: make test"
    ),
    "an allow rule, and the sandbox is partial": Try(
        level="partial", allow=("exec: make test",), asks="outside: make test"
    ),
    "an allow rule, and there is no sandbox": Try(
        level="none", allow=("exec: make test",), asks="outside: make test"
    ),
    "in ask: an allow rule, and there is no sandbox": Try(
        mode="ask", level="none", allow=("exec: make test",), asks="outside: make test"
    ),
    "an allow rule, then outside in the background": Try(
        allow=("exec: make test",),
        also={**OUT, "background": True},
        asks="outside: make test",
    ),
    "granted in the sandbox, then in the background without one": Try(
        level="none",
        granted=("exec: make test",),
        also={"background": True},
        asks="outside: make test",
    ),
    "in the background, with a host": Try(
        allow=("exec: make test",),
        also={"network": ["evil.example"], "background": True},
        asks="net: evil.example",
    ),
    "leaving alone allowed, where the command is not": Try(
        mode="ask", allow=("outside: make test",), also=OUT, asks="exec: make test"
    ),
    "a line allowed, then outside": Try(
        command=LINE, allow=(f"shell: {LINE}",), also=OUT, asks=f"outside: bash -c '{LINE}'"
    ),
    "every line allowed, then outside": Try(
        command=LINE, allow=("shell: *",), also=OUT, asks=f"outside: bash -c '{LINE}'"
    ),
    "a line granted, then outside": Try(
        command=LINE, granted=(f"shell: {LINE}",), also=OUT, asks=f"outside: bash -c '{LINE}'"
    ),
    "a line of a star, granted outside as another": Try(
        command="rm *",
        granted=("shell: *", "outside: rm '*'"),
        also=OUT,
        asks="outside: bash -c 'rm *'",
    ),
    "two lines in one, outside": Try(
        command="make test\nrm -r x",
        allow=("outside: make *", "shell: *"),
        also=OUT,
        asks="outside: bash -c 'make test\nrm -r x'",
    ),
}
PERMITTED: dict[str, Try] = {
    "an allow rule, in the sandbox": Try(mode="ask", allow=("exec: make test",), asks=""),
    "the mode auto, in the sandbox": Try(asks=""),
    "both allowed": Try(
        mode="ask", level="none", allow=("exec: make test", "outside: make test"), asks=""
    ),
    "leaving allowed, and the rest by the mode": Try(
        allow=("outside: make test",), also=OUT, asks=""
    ),
    "granted outside, and again": Try(
        mode="ask", granted=("exec: make test", "outside: make test"), also=OUT, asks=""
    ),
    "a line granted outside, and again": Try(
        command=LINE, granted=(f"outside: bash -c '{LINE}'",), also=OUT, asks=""
    ),
    "what only looks needs no sandbox": Try(command="ls", mode="ask", level="none", asks=""),
}


async def reviewed(tried: Try, workspace: Path) -> Review:
    policy = Policy(
        mode=tried.mode,
        sandbox=tried.level,
        allow=tried.allow,
        deny=tried.deny,
        ask=tried.ask,
    )
    manager = ToolManager([terminal_tool(Said(tried.level))], built_in=(), policy=lambda: policy)
    context = msgspec.structs.replace(Bench(workspace).context, granted=tried.granted)
    return await manager.review(
        "execute_terminal", {"command": tried.command, **tried.also}, context
    )


@table("story", LEAVING)
async def test_leaving_is_asked_about(tmp_path: Path, story: str) -> None:
    tried = LEAVING[story]

    review = await reviewed(tried, tmp_path)

    assert review.kind == "ask"
    assert tried.asks in review.asks
    if "\n" not in tried.asks:
        assert f'"{tried.asks}"' in review.hint


@table("story", PERMITTED)
async def test_what_was_said_yes_to_runs_unasked(tmp_path: Path, story: str) -> None:
    review = await reviewed(PERMITTED[story], tmp_path)

    assert review.kind == "allow", review.reason


NETWORK = {
    "an allow rule": Try(mode="ask", allow=("exec: make test",), asks="net: "),
    "the mode auto": Try(asks="net: "),
    "granted without": Try(mode="ask", granted=("exec: make test",), asks="net: "),
    "the tool's name": Try(granted=("execute_terminal",), asks="net: "),
    "and outside": Try(
        also=OUT, granted=("exec: make test", "net: example.org"), asks="outside: make test"
    ),
}


@table("story", NETWORK)
async def test_the_network_is_asked_about(tmp_path: Path, story: str) -> None:
    tried = NETWORK[story]

    review = await reviewed(
        msgspec.structs.replace(tried, also={**tried.also, "network": True}), tmp_path
    )

    asked = [ask for ask in review.asks if not ask.startswith(SHOWN)]
    assert review.kind == "ask"
    assert any(ask.startswith(tried.asks) for ask in asked)


_OUTSIDE = "outside: make test"
_KEPT_TO = ("net: evil.example",)
REACHING = {
    "the very command allowed": Try(also=OUT, allow=(_OUTSIDE,), deny=_KEPT_TO, asks=_OUTSIDE),
    "every command allowed": Try(also=OUT, allow=("outside: *",), deny=_KEPT_TO, asks=_OUTSIDE),
    "the host is asked about": Try(also=OUT, allow=(_OUTSIDE,), ask=_KEPT_TO, asks=_OUTSIDE),
    "every host is denied": Try(also=OUT, allow=(_OUTSIDE,), deny=("net: *",), asks=_OUTSIDE),
    "the mode full": Try(mode="full", also=OUT, deny=_KEPT_TO, asks=_OUTSIDE),
    "full, and no sandbox": Try(mode="full", level="none", deny=_KEPT_TO, asks=_OUTSIDE),
    "full, and part of one": Try(mode="full", level="partial", deny=_KEPT_TO, asks=_OUTSIDE),
    "a line": Try(
        command=LINE,
        also=OUT,
        allow=("shell: *", "outside: *"),
        deny=_KEPT_TO,
        asks=f"outside: bash -c '{LINE}'",
    ),
}


@table("story", REACHING)
async def test_a_rule_on_a_host_holds_for_what_reaches_every_host(
    tmp_path: Path, story: str
) -> None:
    tried = REACHING[story]

    review = await reviewed(tried, tmp_path)

    assert review.kind == "ask"
    assert tried.asks in review.asks
    assert "net: " in review.reason


async def test_in_the_sandbox_such_a_rule_asks_about_nothing(tmp_path: Path) -> None:
    review = await reviewed(Try(deny=_KEPT_TO, asks=""), tmp_path)

    assert review.kind == "allow", review.reason
