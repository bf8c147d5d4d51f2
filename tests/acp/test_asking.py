"""What a person is asked in their editor: approvals, questions, plans; and what they see done."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from acp_kit import ASKS, Editor, home, talking, work
from api_kit import write
from support.openai_server import Call, Reply

__all__ = ["home", "work"]

WRITES = Reply(calls=(Call(name="write_file", arguments={"path": "a.txt", "content": "new\n"}),))


def chooses(id: str) -> Any:
    return lambda params: {"outcome": {"outcome": "selected", "optionId": id}}


async def coder(editor: Editor, work: Path, **capabilities: Any) -> str:
    """Return a session with the role that writes files."""
    session = await editor.opened(work, **capabilities)
    await editor.call(
        "session/set_config_option", sessionId=session, configId="talks_to", value="role:coder"
    )
    return session


async def test_a_change_is_asked_about_and_shown_as_a_difference(work: Path) -> None:
    file = write(work, "a.txt", "old\n")
    async with talking(WRITES, Reply(text="Done.")) as (editor, _):
        session = await coder(editor, work)
        editor.answers["session/request_permission"] = chooses("once")

        assert await editor.prompt(session, "change it") == "end_turn"

    assert file.read_text() == "new\n"
    ((_, request),) = editor.asked
    assert [each["kind"] for each in request["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
    ]
    assert "-old\n+new" in request["toolCall"]["content"][0]["content"]["text"]
    assert request["toolCall"]["kind"] == "edit"
    last = editor.told("tool_call_update")[-1]
    assert last["status"] == "completed"
    assert last["toolCallId"] == request["toolCall"]["toolCallId"]
    diff = {"type": "diff", "path": str(file), "oldText": "old\n", "newText": "new\n"}
    assert last["content"][0] == diff


@pytest.mark.parametrize("outcome", ["no", "what nobody offered", "cancelled"])
async def test_nothing_is_done_without_a_yes(outcome: str, work: Path) -> None:
    file = write(work, "a.txt", "old\n")
    async with talking(WRITES, Reply(text="I see.")) as (editor, _):
        session = await coder(editor, work)
        editor.answers["session/request_permission"] = (
            (lambda params: {"outcome": {"outcome": "cancelled"}})
            if outcome == "cancelled"
            else chooses(outcome)
        )

        assert await editor.prompt(session, "change it") == "end_turn"

    assert file.read_text() == "old\n"
    assert ("Nothing was decided" in editor.text()) == (outcome != "no")


async def test_words_never_approve(work: Path) -> None:
    file = write(work, "a.txt", "old\n")
    async with talking(WRITES, Reply(text="I see.")) as (editor, server):
        session = await coder(editor, work)
        assert await editor.prompt(session, "change it") == "end_turn"  # it cannot ask
        assert await editor.prompt(session, "yes") == "end_turn"

    assert file.read_text() == "old\n"
    assert "yes" in str(server.requests[-1]["messages"])


async def test_a_yes_for_the_run_is_asked_for_once(work: Path) -> None:
    again = Reply(calls=(Call(name="write_file", arguments={"path": "a.txt", "content": "2\n"}),))
    script = (WRITES, again, Reply(text="Done."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        editor.answers["session/request_permission"] = chooses("run")
        await editor.prompt(session, "change it")

    assert len(editor.asked) == 1
    assert (work / "a.txt").read_text() == "2\n"


def asking(**arguments: Any) -> Reply:
    asked = {"question": "Which one?", **arguments}
    return Reply(calls=(Call(name="request_users_input", arguments=asked),))


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["name", "count"],
}


@pytest.mark.parametrize(
    ("arguments", "content", "told"),
    [
        ({}, {"answer": "the first"}, "the first"),
        ({"choices": ["red", "blue"]}, {"answer": "blue"}, "blue"),
        ({"schema": SCHEMA}, {"name": "x", "count": 2}, '"count":2'),
    ],
)
async def test_a_question_is_a_form(arguments: Any, content: Any, told: str, work: Path) -> None:
    script = (asking(**arguments), Reply(text="Thanks."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work, **ASKS)
        editor.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": content,
        }

        assert await editor.prompt(session, "go") == "end_turn"

    assert told in str(server.requests[-1]["messages"]).replace('": ', '":')
    assert editor.text() == "Thanks."


async def test_an_answer_that_does_not_fit_is_asked_for_again(work: Path) -> None:
    script = (asking(schema=SCHEMA), Reply(text="Thanks."))
    async with talking(*script) as (editor, _):
        session = await editor.opened(work, **ASKS)
        answers = iter(({"name": "x", "count": 0}, {"name": "x", "count": 3}))
        editor.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": next(answers),
        }
        assert await editor.prompt(session, "go") == "end_turn"

    assert [method for method, _ in editor.asked] == ["elicitation/create"] * 2


async def test_without_forms_the_next_prompt_answers(work: Path) -> None:
    script = (asking(choices=["red", "blue"]), Reply(text="Thanks."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        assert await editor.prompt(session, "go") == "end_turn"
        assert editor.text() == "**#1 dude asks:** Which one?\n1. red\n2. blue"
        assert await editor.prompt(session, "2") == "end_turn"

    assert server.requests[-1]["messages"][-1]["content"] == "blue"


async def test_words_that_are_no_answer_come_back_with_a_way_on(work: Path) -> None:
    script = (asking(choices=["red", "blue"]), Reply(text="Thanks."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        await editor.prompt(session, "go")
        await editor.prompt(session, "neither")
        assert editor.text().endswith(
            "Choose by number or word: 1 red, 2 blue. Answer it so; /undo takes back the turn that asked.*"
        )
        await editor.prompt(session, "/undo")
        assert await editor.prompt(session, "neither") == "end_turn"

    assert server.requests[-1]["messages"][-1]["content"] == "neither"


async def test_words_beside_an_open_form_come_back_with_a_way_on(work: Path) -> None:
    script = (asking(schema=SCHEMA), Reply(text="Thanks."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work, **ASKS)
        editor.answers["elicitation/create"] = lambda params: asyncio.Event().wait()
        first = editor.begin(session, "go")
        await editor.until(lambda it: it.asked)
        second = editor.begin(session, "neither")
        await editor.until(lambda it: "no effect" in it.text())
        assert editor.text().endswith(
            "or JSON. Fill in the form, or stop: your next words then go on without an answer.*"
        )
        await editor.cancel(session)
        assert (await first, await second) == ("cancelled", "cancelled")
        assert await editor.prompt(session, "neither") == "end_turn"

    assert server.requests[-1]["messages"][-1]["content"] == "neither"


async def test_of_several_questions_the_number_says_which_is_answered(work: Path) -> None:
    flow = {
        "workflow_name": "two",
        "contexts": [{"name": "one"}, {"name": "other"}],
        "agents": [
            {"agent_role": "dude", "name": "ada", "context": "one"},
            {"agent_role": "dude", "name": "bob", "context": "other"},
        ],
        "states": [
            {"name": "start", "parallel": ["left", "right"], "next": "stop"},
            {"name": "left", "agent": "ada"},
            {"name": "right", "agent": "bob"},
            {"name": "stop"},
        ],
    }
    write(work.parent, "config/workflows/two.json", json.dumps(flow))
    async with talking(asking(), asking(), Reply(text="Thanks."), Reply(text="Bye.")) as (
        editor,
        server,
    ):
        session = await editor.opened(work)
        await editor.call(
            "session/set_config_option",
            sessionId=session,
            configId="talks_to",
            value="workflow:two",
        )
        assert await editor.prompt(session, "go") == "end_turn"
        await editor.prompt(session, "blue")
        assert "Several questions are open: begin with #1 or #2." in editor.text()
        await editor.prompt(session, "#9 blue")
        assert "No open question has the number 9." in editor.text()
        assert len(server.requests) == 2
        await editor.prompt(session, "#2 blue")
        assert server.requests[-1]["messages"][-1]["content"] == "blue"
        assert await editor.prompt(session, "red") == "end_turn"

    assert server.requests[-1]["messages"][-1]["content"] == "red"


async def test_a_form_that_is_put_away_leaves_the_question_open(work: Path) -> None:
    script = (asking(), Reply(text="Thanks."))
    async with talking(*script) as (editor, _):
        session = await editor.opened(work, **ASKS)
        editor.answers["elicitation/create"] = lambda params: {"action": "cancel"}
        assert await editor.prompt(session, "go") == "end_turn"
        assert "Which one?" in editor.text()
        assert await editor.prompt(session, "the second") == "end_turn"

    assert "Thanks." in editor.text()


async def test_the_todo_list_is_a_plan(work: Path) -> None:
    items = [{"text": "look", "status": "done"}, {"text": "mend", "status": "doing"}]
    script = (Reply(calls=(Call(name="todo", arguments={"items": items}),)), Reply(text="Done."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        await editor.prompt(session, "go")

    (plan,) = editor.told("plan")
    assert [(each["content"], each["status"]) for each in plan["entries"]] == [
        ("look", "completed"),
        ("mend", "in_progress"),
    ]
    assert editor.told("tool_call") == []
    assert editor.told("usage_update")[-1]["used"] == 18


async def test_undo_takes_back_the_last_turn_with_its_files(work: Path) -> None:
    file = write(work, "a.txt", "old\n")
    script = (Reply(text="Hello."), WRITES, Reply(text="Done."), Reply(text="Yes."))
    async with talking(*script) as (editor, server):
        session = await coder(editor, work)
        editor.answers["session/request_permission"] = chooses("once")
        await editor.prompt(session, "hi")
        await editor.prompt(session, "rewrite all of it")
        assert await editor.prompt(session, "/undo") == "end_turn"
        assert file.read_text() == "old\n"
        await editor.prompt(session, "are you there?")
        assert "rewrite all" not in str(server.requests[-1]["messages"])
        assert "Yes." in editor.text()

        # Its id leads to what is left, later, too.
        editor.updates.clear()
        await editor.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        assert editor.users() == ["hi", "are you there?"]


async def test_commands_are_offered_and_done(work: Path) -> None:
    write(work.parent, "config/commands/look.md", "---\ndescription: looks\n---\nLook at $1.\n")
    script = (Reply(text="Hello."), Reply(text="I looked."))
    async with talking(*script) as (editor, server):
        session = await editor.opened(work)
        await editor.until(lambda e: e.told("available_commands_update"))
        (told,) = editor.told("available_commands_update")
        assert {each["name"] for each in told["availableCommands"]} == {
            *("compact", "cost", "undo", "rename", "look")
        }
        await editor.prompt(session, "/look a.py")
        assert "Look at a.py." in str(server.requests[-1]["messages"])
        await editor.prompt(session, "/cost")
        assert "gpt-4o-mini" in editor.text()
        await editor.prompt(session, "/rename my session")
        assert editor.told("session_info_update")[-1]["title"] == "my session"
        await editor.prompt(session, "/rename")
        assert "The name is missing." in editor.text()
        assert editor.told("session_info_update")[-1]["title"] == "my session"
        await editor.prompt(session, "/nothing at all")
        assert "There is no command /nothing" in editor.text()


async def test_a_task_that_is_handed_on_speaks_in_its_call(work: Path) -> None:
    handed = Call(name="delegate", arguments={"role": "finder", "task": "find it"})
    script = (Reply(calls=(handed,)), Reply(text="Found *it*."), Reply(text="Done."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        await editor.prompt(session, "go")

    (begun,) = editor.told("tool_call")
    (content,) = editor.told("tool_call_update")[-1]["content"]
    assert content["content"]["text"] == "Found *it*."
    assert editor.told("tool_call_update")[-1]["toolCallId"] == begun["toolCallId"]
    assert editor.text() == "Done."
