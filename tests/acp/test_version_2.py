"""The draft of version 2: prompts are answered once they are said, and the session says how it stands."""

from pathlib import Path
from typing import Any

import pytest
from acp_kit import ASKS, Editor, connected, fits, home, talking, work
from api_kit import write
from support.openai_server import Call, Gate, Reply

from midstream.agents.json_rpc import RpcError

__all__ = ["home", "work"]


async def session_of(editor: Editor, work: Path, **capabilities: Any) -> str:
    editor.version = 2
    info = {"name": "test", "version": "1"}
    told = await editor.call(
        "initialize", protocolVersion=2, info=info, capabilities=capabilities or {}
    )
    fits(2, "InitializeResponse", told)
    made = await editor.call("session/new", cwd=str(work))
    fits(2, "NewSessionResponse", made)
    chosen = {"configId": "talks_to", "type": "id", "value": "role:coder"}
    told = await editor.call("session/set_config_option", sessionId=made["sessionId"], **chosen)
    fits(2, "SetSessionConfigOptionResponse", told)
    assert {each["configId"] for each in told["configOptions"]} >= {"mode", "model", "talks_to"}
    return str(made["sessionId"])


async def prompt(editor: Editor, session: str, text: str) -> str:
    blocks = [{"type": "text", "text": text}]
    told = await editor.call("session/prompt", sessionId=session, prompt=blocks)
    fits(2, "PromptResponse", told)
    return str(told["messageId"])


def states(editor: Editor) -> list[tuple[str, str]]:
    told = editor.told("state_update")
    return [(each["state"], each.get("stopReason", "")) for each in told]


def is_idle(editor: Editor) -> bool:
    return states(editor)[-1:] != [] and states(editor)[-1][0] == "idle"


async def test_a_prompt_is_answered_once_it_is_said(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, _):
        session = await session_of(editor, work)
        first = await prompt(editor, session, "count")
        await editor.until(lambda e: "One" in e.text())
        second = await prompt(editor, session, "three")
        await editor.until(is_idle)

        assert [each["messageId"] for each in editor.told("user_message")] == [first, second]
        assert editor.text() == "One \n\n*[interrupted]*\n\nThree."
        assert states(editor) == [("running", ""), ("idle", "end_turn")]


async def test_a_cancel_ends_in_idle(work: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("One ", "two"), gate=gate, gate_after=1), Reply(text="Three."))
    async with talking(*script) as (editor, _):
        session = await session_of(editor, work)
        await prompt(editor, session, "count")
        await editor.until(lambda e: "One" in e.text())
        await editor.cancel(session)
        await editor.until(is_idle)
        await prompt(editor, session, "/cost")
        await prompt(editor, session, "again")
        await editor.until(lambda e: "Three." in e.text() and is_idle(e))

    reasons = [reason for state, reason in states(editor) if state == "idle"]
    assert reasons == ["cancelled", "end_turn", "end_turn"]


async def test_a_yes_is_waited_for_and_a_change_is_a_patch(work: Path) -> None:
    write(work, "a.txt", "old\n")
    items = [{"text": "look", "status": "done"}]
    script = (
        Reply(calls=(Call(name="todo", arguments={"items": items}),)),
        Reply(calls=(Call(name="write_file", arguments={"path": "a.txt", "content": "new\n"}),)),
        Reply(text="Done."),
    )
    async with talking(*script) as (editor, _):
        session = await session_of(editor, work, **ASKS)
        editor.answers["session/request_permission"] = lambda params: {
            "outcome": {"outcome": "selected", "optionId": "once"}
        }
        await prompt(editor, session, "change it")
        await editor.until(is_idle)

    assert (work / "a.txt").read_text() == "new\n"
    assert ("requires_action", "") in states(editor)
    ((_, request),) = editor.asked
    assert request["subject"]["type"] == "tool_call"
    content = editor.told("tool_call_update")[-1]["content"][0]
    assert content["changes"] == [{"operation": "modify", "path": str(work / "a.txt")}]
    assert content["patch"]["text"].endswith("-old\n+new\n")
    (plan,) = editor.told("plan_update")
    assert plan["plan"]["entries"][0]["content"] == "look"


async def test_a_session_is_told_again_from_its_start(work: Path) -> None:
    async with talking(Reply(text="Hello.")) as (editor, _):
        session = await session_of(editor, work)
        await prompt(editor, session, "hi there")
        await editor.until(is_idle)
        await editor.call("session/close", sessionId=session)
        async with connected() as other:
            other.version = 2
            await other.call("initialize", protocolVersion=2, info={"name": "t", "version": "1"})
            for method in ("session/load", "session/set_mode"):
                with pytest.raises(RpcError, match="no method"):
                    await other.call(method, sessionId=session, cwd=str(work))
            told = await other.call(
                "session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"}
            )
            fits(2, "ResumeSessionResponse", told)

            assert (other.users(), other.text()) == (["hi there"], "Hello.")
