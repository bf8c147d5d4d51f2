"""A session is a run: what an editor says, what it is told, and how each prompt ends."""

import asyncio
import base64
import json
from pathlib import Path

import pytest
from acp_kit import connected, home, options, talking, work
from api_kit import write
from support.openai_server import Gate, Reply
from support.pictures import png

from midstream.agents.json_rpc import NOT_FOUND, RpcError

__all__ = ["home", "work"]


async def test_a_prompt_is_answered_and_has_its_stop_reason(work: Path) -> None:
    async with talking(Reply(chunks=("Good ", "morning"))) as (editor, _):
        session = await editor.opened(work)

        assert await editor.prompt(session, "hello") == "end_turn"
        assert editor.text(session) == "Good morning"
        assert editor.users() == []


async def test_a_second_prompt_steers_and_both_end(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, _):
        session = await editor.opened(work)
        first = editor.begin(session, "count")
        await editor.until(lambda e: "One" in e.text())
        second = await editor.prompt(session, "go on with three")

        assert (await first, second) == ("end_turn", "end_turn")
        assert editor.text() == "One \n\n*[interrupted]*\n\nThree."


async def test_a_cancel_keeps_what_was_shown(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Again."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        first = editor.begin(session, "count")
        await editor.until(lambda e: "One" in e.text())
        await editor.cancel(session)

        assert await first == "cancelled"
        assert await editor.prompt(session, "again") == "end_turn"
        assert "One " in str(server.requests[-1]["messages"])


async def test_steering_is_the_extension_of_other_agents(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, server):
        assert (await editor.initialize())["_meta"] == {"steering": {"supported": True}}
        session = await editor.new(work)
        steer = {"sessionId": session, "prompt": [{"type": "text", "text": "three, please"}]}
        idle = {"_meta": {"steering": {"idleBehavior": "promptRequired"}}}

        assert await editor.call("_session/steering", **steer, **idle) == {
            "outcome": "promptRequired",
            "reason": "noRunningTurn",
        }
        first = editor.begin(session, "count")
        await editor.until(lambda e: "One" in e.text())

        assert await editor.call("_session/steering", **steer) == {"outcome": "injected"}
        assert await first == "end_turn"
        assert "three, please" in str(server.requests[-1]["messages"])


async def test_a_session_is_loaded_and_told_again_whole(work: Path) -> None:
    script = (Reply(text="Hello."), Reply(text="Bye."))
    async with talking(*script) as (editor, _):
        session = await editor.opened(work)
        await editor.prompt(session, "hi there")
        await editor.call("session/close", sessionId=session)
        async with connected() as other:
            await other.initialize()
            listed = await other.call("session/list", cwd=str(work))
            await other.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])

            assert [(each["sessionId"], each["title"]) for each in listed["sessions"]] == [
                (session, "hi there")
            ]
            assert (other.users(), other.text()) == (["hi there"], "Hello.")
            assert await other.prompt(session, "good bye") == "end_turn"
            assert other.text() == "Hello.Bye."


async def test_a_fork_is_a_session_of_its_own(work: Path) -> None:
    script = (Reply(text="Hello."), Reply(text="Bye."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        await editor.prompt(session, "hi there")
        made = await editor.call("session/fork", sessionId=session, cwd=str(work), mcpServers=[])

        assert made["sessionId"] != session
        assert await editor.prompt(made["sessionId"], "good bye") == "end_turn"
        assert "hi there" in str(server.requests[-1]["messages"])
        assert editor.text(session) == "Hello."


async def test_a_session_is_deleted_with_its_run_open_or_not_and_once_is_enough(work: Path) -> None:
    gate = Gate()
    script = (Reply(text="Hello."), Reply(text="An old pond", gate=gate), Reply(text="Kept."))
    async with talking(*script) as (editor, _):
        made = await editor.initialize()
        assert made["agentCapabilities"]["sessionCapabilities"]["delete"] == {}
        sessions = [await editor.new(work) for _ in range(4)]
        closed, busy, kept, empty = sessions
        await editor.prompt(closed, "hi")
        await editor.call("session/close", sessionId=closed)
        slow = editor.begin(busy, "a haiku")
        await gate.reached
        await editor.prompt(kept, "stay")

        for session in (closed, busy, empty, closed):
            assert await editor.call("session/delete", sessionId=session) in (None, {})

        assert (await slow) == "cancelled"
        listed = await editor.call("session/list", cwd=str(work))
        assert [each["sessionId"] for each in listed["sessions"]] == [kept]
        for session in (closed, busy):
            with pytest.raises(RpcError, match="no run") as caught:
                await editor.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            assert caught.value.code == NOT_FOUND
        gate.open()


async def test_a_session_that_others_were_forked_from_is_not_deleted(work: Path) -> None:
    async with talking(Reply(text="Hello.")) as (editor, _):
        await editor.initialize()
        session = await editor.new(work)
        await editor.prompt(session, "hi")
        await editor.call("session/fork", sessionId=session, cwd=str(work), mcpServers=[])
        with pytest.raises(RpcError, match="fork"):
            await editor.call("session/delete", sessionId=session)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_in_which_nothing_was_said_may_be_taken_up_again(
    method: str, work: Path
) -> None:
    async with talking(Reply(text="Hello.")) as (editor, _):
        await editor.initialize()
        session = await editor.new(work)
        made = await editor.call(method, sessionId=session, cwd=str(work), mcpServers=[])
        assert made["configOptions"]
        assert await editor.prompt(session, "hi") == "end_turn"


async def test_what_is_not_there_is_an_error_with_words(work: Path) -> None:
    async with talking() as (editor, _):
        await editor.initialize()
        for method, params, words in (
            ("session/prompt", {"sessionId": "x", "prompt": []}, "is not open here"),
            ("session/load", {"sessionId": "x", "cwd": str(work), "mcpServers": []}, "no run"),
            ("session/new", {"cwd": "work", "mcpServers": []}, "not absolute"),
            ("session/new", {"cwd": str(work / "none"), "mcpServers": []}, "no folder"),
            ("session/new", {}, "do not fit"),
            ("session/nothing", {}, "no method"),
        ):
            with pytest.raises(RpcError, match=words):
                await editor.call(method, **params)


async def test_an_untrusted_folder_is_opened_without_its_files_and_that_is_said(work: Path) -> None:
    write(work, ".midstream/application.json", '{"permissions": {"mode": "auto"}}')
    async with talking(Reply(text="Hello.")) as (editor, _):
        await editor.initialize()
        made = await editor.call("session/new", cwd=str(work), mcpServers=[])
        await editor.until(lambda e: "midstream trust" in e.text())

        assert [each["id"] for each in made["modes"]["availableModes"]] == ["ask"]
        assert await editor.prompt(made["sessionId"], "hello") == "end_turn"


async def test_modes_models_and_policies_are_options(work: Path) -> None:
    script = (Reply(chunks=("One ", "two")), Reply(text="Three."))
    async with talking(*script) as (editor, server):
        await editor.initialize()
        made = await editor.call("session/new", cwd=str(work), mcpServers=[])
        session = made["sessionId"]
        assert options(made, "mode") == ["plan", "ask", "auto"]
        assert "role:coder" in options(made, "talks_to")

        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        await editor.until(lambda e: e.told("current_mode_update"))
        for id, value in (("model", "openai:gpt-4o"), ("talks_to", "role:coder")):
            made = await editor.call(
                "session/set_config_option", sessionId=session, configId=id, value=value
            )
        await editor.prompt(session, "count")

        now = {each["id"]: each["currentValue"] for each in made["configOptions"]}
        assert now == {
            "mode": "plan",
            "model": "openai:gpt-4o",
            "on_input": "as the workflow says",
            "talks_to": "role:coder",
        }
        assert server.requests[-1]["model"] == "gpt-4o"
        with pytest.raises(RpcError, match="cannot switch to full"):
            await editor.call("session/set_mode", sessionId=session, modeId="full")


async def test_words_that_were_cancelled_before_they_were_said_are_kept(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        prompts = [editor.begin(session, f"words {number}") for number in range(3)]
        await asyncio.sleep(0)
        await editor.cancel(session)
        assert await asyncio.gather(*prompts) == ["cancelled"] * 3
        gate.open()
        assert await editor.prompt(session, "go on") == "end_turn"

    said = str(server.requests[-1]["messages"])
    assert all(f"words {number}" in said for number in range(3))


async def test_a_request_that_is_taken_back_halts_the_turn(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        first = editor.begin(session, "count")
        await editor.until(lambda e: "One" in e.text())
        first.cancel()
        await editor.until(lambda e: "[interrupted]" in e.text())
        assert await editor.prompt(session, "again") == "end_turn"

    assert "count" in str(server.requests[-1]["messages"])


async def test_a_picture_and_files_are_said(work: Path) -> None:
    picture = base64.b64encode(png(4, 3)).decode()
    blocks = [
        {"type": "text", "text": "Look at "},
        {"type": "resource_link", "name": "a b.txt", "uri": f"file://{work}/a%20b.txt"},
        {"type": "text", "text": " and "},
        {"type": "image", "mimeType": "image/png", "data": picture},
        {"type": "resource", "resource": {"uri": f"file://{work}/c.txt", "text": "held"}},
        {"type": "audio", "mimeType": "audio/wav", "data": ""},
    ]
    async with talking(Reply(text="I see.")) as (editor, server):
        session = await editor.opened(work)
        await editor.call("session/prompt", sessionId=session, prompt=blocks)

    said = server.requests[-1]["messages"][-1]["content"]
    assert any(part["type"] == "image_url" for part in said)
    words = "".join(part.get("text", "") for part in said)
    for part in ('@"a b.txt"', "@c.txt", "held", "left out"):
        assert part in words


async def test_branches_are_tool_calls_with_their_own_text(work: Path) -> None:
    flow = {
        "workflow_name": "two",
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": "dude", "context": "talk"}],
        "states": [
            {"name": "start", "parallel": ["left", "right"], "next": "stop"},
            {"name": "left", "agent": "dude"},
            {"name": "right", "agent": "dude"},
            {"name": "stop"},
        ],
    }
    write(work.parent, "config/workflows/two.json", json.dumps(flow))
    async with talking(*[Reply(text="Hello.")] * 2) as (editor, _):
        session = await editor.opened(work)
        await editor.call(
            "session/set_config_option",
            sessionId=session,
            configId="talks_to",
            value="workflow:two",
        )
        assert await editor.prompt(session, "go") == "end_turn"

    begun = editor.told("tool_call")
    assert [each["title"] for each in begun] == ["branch left", "branch right"]
    ends = [each for each in editor.told("tool_call_update") if each.get("status")]
    assert [each["status"] for each in ends] == ["completed", "completed"]
    assert all("Hello." in each["content"][0]["content"]["text"] for each in ends)


@pytest.mark.journal_file
async def test_an_editor_is_told_that_its_session_waits_for_the_journal_and_goes_on(
    home: Path, work: Path
) -> None:
    gate = Gate()
    async with talking(Reply(chunks=("One ", "two"), gate=gate, gate_after=1)) as (editor, _):
        session = await editor.opened(work)
        first = editor.begin(session, "count")
        await editor.until(lambda e: "One" in e.text())
        journal, away = home / "state/journal.db", home / "away"
        journal.rename(away)
        gate.open()
        await editor.until(lambda e: "*It waits: " in e.text())
        away.rename(journal)

        assert await first == "end_turn"
        assert "journal.db is gone" in editor.text()
        assert editor.text().endswith("*The journal works again: it goes on.*")
