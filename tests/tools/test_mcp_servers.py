"""MCP servers as people write them: approved, called, cancelled, changed and ended."""

import asyncio
from pathlib import Path

import pytest
from mcp_kit import QUICK, REAL, bench, python_server
from msgspec.structs import replace

from midstream.config.mcp_servers import McpServer
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.tools.manager import ToolManager
from midstream.tools.mcp.approval import CODE_S
from midstream.tools.mcp.server_process import ServerProcess

SOURCE = Path(QUICK).read_bytes()


async def test_an_approved_tool_is_called(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")

        outcome = await b.call("mcp__real__add", {"a": 2, "b": 3})

    assert (outcome.outcome, outcome.text) == ("completed", "5")


async def test_nothing_runs_and_nothing_is_offered_before_a_yes(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        assert b.servers.tools() == ()
        assert "not approved: /mcp approve real" in await b.approvals.listing()

        outcome = await b.call("mcp__real__add", {"a": 2, "b": 3})

    assert (outcome.outcome, "There is no tool" in outcome.text) == ("failed", True)


async def test_what_was_approved_is_known_later_without_starting_anything(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")
    async with bench(tmp_path, python_server(REAL)) as b:
        names = [tool.spec.name for tool in b.servers.tools()]

        assert names == [f"mcp__real__{name}" for name in ("add", "environment", "fails", "slow")]
        assert "running" not in await b.approvals.listing()
        assert (await b.call("mcp__real__add", {"a": 1, "b": 1})).text == "2"
        assert "running" in await b.approvals.listing()


async def test_a_person_sees_every_word_and_the_whole_schema(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        asked = await b.approvals.ask("real")

    assert "offers 4 tools" in asked.text
    assert "| Add two whole numbers." in asked.text
    assert '|     "a": {' in asked.text
    assert "readonlyhint: true" in asked.text
    assert "mcp_real_server.py" in asked.text


async def test_arguments_that_do_not_fit_are_not_sent(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")

        outcome = await b.call("mcp__real__add", {"a": "two", "b": 3})

    assert "Not run, the arguments do not fit" in outcome.text


async def test_a_tool_that_fails_is_told_in_its_words(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")

        outcome = await b.call("mcp__real__fails")

    assert (outcome.outcome, "out of cheese" in outcome.text) == ("failed", True)


async def test_a_call_told_to_stop_is_cancelled_and_the_server_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")
        calling = asyncio.ensure_future(b.call("mcp__real__slow"))
        await b.has_progressed.wait()
        b.stop.set()

        outcome = await calling
        b.stop.clear()
        after = await b.call("mcp__real__add", {"a": 1, "b": 2})

    assert (outcome.outcome, "verify before repeating" in outcome.text) == ("unknown", True)
    assert (b.progress, after.text) == (["begun\n"], "3")


async def test_two_calls_at_once_share_one_server(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL)) as b:
        await b.approve("real")

        sums = await asyncio.gather(*(b.call("mcp__real__add", {"a": n, "b": n}) for n in range(5)))

    assert [each.text for each in sums] == ["0", "2", "4", "6", "8"]


async def test_trusted_hints_make_a_call_repeatable_and_never_unasked(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(REAL, trusts_annotations=True)) as b:
        await b.approve("real")
        specs = {tool.spec.name: tool for tool in b.servers.tools()}
        add = specs["mcp__real__add"]
        assert add.plan is not None
        requests = add.plan({}, b.context()).requests

    assert [str(each) for each in requests] == ["tool: mcp__real__add"]
    assert (add.spec.effect, add.spec.reviewed) == ("read", True)
    assert specs["mcp__real__fails"].spec.effect == "once"


# --- approving --------------------------------------------------------------------------------------


async def test_a_code_counts_once(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        asked = await b.approvals.ask("real")
        await b.approvals.approve("real", asked.code)

        with pytest.raises(UserMistake, match="was used"):
            await b.approvals.approve("real", asked.code)


@pytest.mark.parametrize("code", ["", "000000", "real"])
async def test_a_guess_approves_nothing(code: str, tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approvals.ask("real")

        with pytest.raises(UserMistake, match="was not shown"):
            await b.approvals.approve("real", code)
        assert b.servers.tools() == ()


async def test_a_code_of_another_server_counts_for_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK), python_server(QUICK, name="two")) as b:
        asked = await b.approvals.ask("real")

        with pytest.raises(UserMistake, match="was not shown"):
            await b.approvals.approve("two", asked.code)


async def test_a_code_grows_too_old(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        now = [0.0]
        b.approvals.now = lambda: now[0]
        asked = await b.approvals.ask("real")
        now[0] += CODE_S + 1

        with pytest.raises(UserMistake, match="too old"):
            await b.approvals.approve("real", asked.code)


async def test_forgetting_ends_the_server_and_its_tools(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        gone: list[str] = []
        await b.approve("real")
        b.approvals.on_tools = lambda name, tools: gone.append(f"{name} {len(tools)}")

        assert await b.approvals.forget("real") == "real is forgotten."
        assert (gone, b.servers.tools()) == (["real 0"], ())
        assert await b.approvals.forget("real") == "real was not approved."


async def test_another_command_under_the_same_name_was_never_approved(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approve("real")
    async with bench(tmp_path, python_server(QUICK, "--more")) as b:
        assert b.servers.tools() == ()
        assert "CHANGED" in await b.approvals.listing()
        assert "has changed since you approved it" in b.servers.unapproved()[0]


async def test_a_server_the_workspace_proposes_is_not_even_started_before_a_yes(
    tmp_path: Path,
) -> None:
    ran = tmp_path / "ran"
    server = python_server("-c", f"open({str(ran)!r}, 'w')", name="theirs", source="workspace")
    async with bench(tmp_path, server) as b:
        asked = await b.approvals.ask("theirs")

        assert not ran.exists()
        assert "The workspace proposes" in asked.text
        assert str(ran) in asked.text
        assert (await b.approvals.approve("theirs", asked.code)).startswith("theirs may be started")
        assert b.servers.tools() == ()


async def test_a_file_of_the_workspace_that_is_run_is_pinned_too(tmp_path: Path) -> None:
    script = tmp_path / "workspace" / "server.py"
    script.parent.mkdir()
    script.write_bytes(SOURCE)
    server = python_server("server.py", source="workspace", cwd=".")
    async with bench(tmp_path, server) as b:
        shown = await b.approve("real")
        assert "file of the workspace: 'server.py'" in shown
        assert len(b.servers.tools()) == 1
        tools = b.servers.tools()

        script.write_bytes(SOURCE + b"\n# and one line more\n")
        assert b.servers.tools() == ()
        manager = ToolManager((replace(tool, plan=None) for tool in tools), built_in=())
        outcome = await manager.call("mcp__real__t", {}, b.context())
        assert "nothing was called" in outcome.text


async def test_a_workspace_cannot_take_the_place_of_ones_own_server(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approve("real")
    async with bench(tmp_path, python_server(QUICK, source="workspace")) as b:
        assert b.servers.tools() == ()


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path, McpServer(name="x", command=("no-such-program-anywhere",))) as b:
        with pytest.raises(UserMistake, match="there is no program 'no-such-program-anywhere'"):
            await b.approvals.ask("x")
        assert "there is no program" in await b.approvals.listing()


async def test_a_server_that_failed_is_left_alone_for_a_while(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server("-c", "raise SystemExit(3)")) as b:
        for _ in range(2):
            # A person who looks again is not made to wait.
            with pytest.raises(Exception, match="ended, or closed its stdout"):
                await b.approvals.ask("real")


async def test_a_server_that_ended_before_it_was_spoken_to_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ServerProcess.write

    async def write_late(process: ServerProcess, line: bytes) -> None:
        await in_thread(process.child.process.wait)
        await write(process, line)

    monkeypatch.setattr(ServerProcess, "write", write_late)
    async with bench(tmp_path, python_server("-c", "raise SystemExit(3)")) as b:
        with pytest.raises(Exception, match="ended, or closed its stdout"):
            await b.approvals.ask("real")


async def test_pins_that_cannot_be_read_approve_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, python_server(QUICK)) as b:
        await b.approve("real")
        (tmp_path / "state" / "mcp.json").write_bytes(b'{"user:real": {"command": 1}}')

        assert b.servers.tools() == ()
