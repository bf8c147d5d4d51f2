"""Calls to MCP tools before the policy: asked about, allowed by rules, refused by rules and modes."""

from pathlib import Path

import pytest
from mcp_kit import QUICK, bench, python_server
from msgspec.structs import replace

from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager

TOOL, NET = "tool: mcp__real__t", "net: mcp__real"


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (Policy(), "ask"),
        (Policy(mode="plan"), "deny"),
        (Policy(mode="auto"), "ask"),
        (Policy(allow=(TOOL,)), "ask"),
        (Policy(allow=(NET,)), "ask"),
        (Policy(allow=(TOOL, NET)), "allow"),
        (Policy(allow=("tool: mcp__real__*", "net: *")), "allow"),
        (Policy(allow=("tool: mcp__other__*", NET)), "ask"),
        (Policy(allow=(TOOL, NET), deny=("net: *",)), "deny"),
        (Policy(allow=(TOOL, NET), narrowing_deny=("tool: mcp__*",)), "deny"),
        (Policy(mode="full", deny=("tool: mcp__real__*",)), "deny"),
    ],
)
async def test_a_call_is_judged_by_its_tool_and_its_net(
    policy: Policy, kind: str, tmp_path: Path
) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approve("real")
        manager = ToolManager(b.servers.tools(), built_in=(), policy=lambda: policy)

        review = await manager.review("mcp__real__t", {"x": 1}, b.context())
        outcome = await manager.call("mcp__real__t", {"x": 1}, b.context())

    assert review.kind == kind
    assert outcome.outcome == ("completed" if kind == "allow" else "denied")


async def test_a_person_sees_server_tool_and_every_argument(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approve("real")
        manager = ToolManager(b.servers.tools(), built_in=())

        review = await manager.review("mcp__real__t", {"x": "\x1b[2J\u202e"}, b.context())

    assert {TOOL, NET} <= set(review.asks)
    assert "MCP server real, tool t" in review.shows
    assert '"x": "\\u001b[2J\\u202e"' in review.shows


async def test_a_grant_for_the_run_opens_the_net_to_nothing_else(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK), python_server(QUICK, name="two")) as b:
        await b.approve("real")
        await b.approve("two")
        manager = ToolManager(b.servers.tools(), built_in=())
        granted = replace(b.context(), granted=(TOOL, NET))

        assert (await manager.call("mcp__real__t", {}, granted)).outcome == "completed"
        assert (await manager.call("mcp__two__t", {}, granted)).outcome == "denied"
