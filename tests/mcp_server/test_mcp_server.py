"""Another agent, through the official client: it starts runs, steers them, answers, and decides nothing."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from api_kit import TALK, Place, here, write
from deadline import DEADLINE_S, jump
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitResult, ErrorData, Implementation

import midstream
from midstream.core.question import OUTCOMES, Question, is_for_programs
from midstream.language.errors import REPORT_BUG
from midstream.mcp_server import waiting
from midstream.mcp_server.server import server_of
from midstream.mcp_server.told import form_of
from midstream.mcp_server.tools import TOOLS
from midstream.safety.sanitize import sanitized
from midstream.testing import Gate, ScriptedModel, asks, call, says
from midstream.views.answer_forms import answer_in

__all__ = ["here"]

ERAS = ("legacy", "auto")
"""The protocol with a handshake, whose server asks; and the newer one, whose client asks again."""


class Wire:
    """A client and what its user is asked."""

    def __init__(self, client: Client, engine: midstream.Engine) -> None:
        self.client = client
        self.engine = engine
        self.progress: list[str] = []
        self._came = asyncio.Event()

    async def hears(self, words: str) -> None:
        """Return once a call of this client was told so while it waited."""
        while not any(words in each for each in self.progress):
            self._came.clear()
            await self._came.wait()

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.result(tool, **arguments)
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
        told: dict[str, Any] = result.structured_content
        return told

    async def result(self, tool: str, **arguments: Any) -> CallToolResult:
        async def on_progress(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            self.progress.append(message or "")
            self._came.set()

        return await self.client.call_tool(tool, arguments, progress_callback=on_progress)

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        assert result.is_error
        words: str = result.content[0].text  # type: ignore[union-attr]
        return words


@contextlib.asynccontextmanager
async def wired(
    place: Place,
    *script: Any,
    era: str = "legacy",
    elicit: Any = None,
    engine: midstream.Engine | None = None,
    name: str = "Claude Code",
    **settings: Any,
) -> AsyncIterator[Wire]:
    """Give a client of a server over an engine whose model follows the script."""
    write(place.workspace, ".midstream/workflows/talk.json", json.dumps(TALK))
    opened = engine or await place.engine(*script, trust=True, **settings)

    async def given() -> midstream.Engine:
        return opened

    client = Client(
        server_of(given),
        mode=era,
        elicitation_callback=elicit,
        client_info=Implementation(name=name, version="1"),
    )
    async with asyncio.timeout(DEADLINE_S), client:
        yield Wire(client, opened)


def form(action: Any, content: dict[str, Any] | None = None) -> tuple[Any, list[Any]]:
    """Return a user who does so with each form, and what they were shown."""
    shown: list[Any] = []

    async def elicit(_: Any, params: Any) -> ElicitResult:
        shown.append(params)
        return ElicitResult(action=action, content=content)

    return elicit, shown


async def test_what_can_be_started_is_listed_and_each_tool_says_what_it_takes(here: Place) -> None:
    async with wired(here) as wire:
        tools = {tool.name: tool for tool in (await wire.client.list_tools()).tools}
        found = await wire("list_workflows")

        assert "talk" in found["workflows"]
        assert "dude" in found["roles"]
        for tool in tools.values():
            assert tool.description
            assert tool.input_schema["type"] == "object"
            assert tool.input_schema["additionalProperties"] is False
            assert (tool.output_schema or {})["type"] == "object"
        given = tools["start_run"].input_schema
        assert given["required"] == ["workflow"]
        assert given["properties"]["budget"]["properties"]["usd"]["type"] == "number"
        assert tools["stop_run"].input_schema["properties"]["how"]["type"] == "string"
        # Not every client follows what a schema refers to, or knows that null is nothing.
        every = json.dumps([tool.input_schema for tool in tools.values()])
        assert "$ref" not in every
        assert '"type": "null"' not in every


@pytest.mark.parametrize("era", ERAS)
async def test_a_run_is_started_waited_for_and_told_with_its_output_and_cost(
    here: Place, era: str
) -> None:
    async with wired(here, "All done.", era=era) as wire:
        told = await wire("start_run", workflow="talk", input="greet", wait_s=60)

        assert (told["status"], told["output"]) == ("finished", "All done.")
        assert told["cost"]["requests"] == 0  # a fake model says nothing of what it used
        assert (
            "talk begins, started by mcp:Claude-Code" not in wire.progress
        )  # it had begun when the wait did
        assert any("All done." in words for words in wire.progress)


async def test_words_in_mid_turn_halt_it_at_once_and_say_whose_they_are(here: Place) -> None:
    gate = Gate()
    async with wired(here, says("Once upon ", "a time", gate=gate, after=1), "As you say.") as wire:
        run = (await wire("start_run", workflow="talk", input="tell"))["run"]
        await gate.reached()

        told = await wire("say_to_run", run=run, text="no, in one line", wait_s=60)

        assert told["heard"]["handling"] == "interrupt"
        assert (told["status"], told["output"]) == ("finished", "As you say.")
        facts = [each.event for each in await wire.engine.facts(run)]
        cut = next(fact for fact in facts if isinstance(fact, midstream.Interrupted))
        said = next(fact for fact in facts if isinstance(fact, midstream.InputReceived))
        assert (cut.partial, said.source) == ("Once upon ", "mcp:Claude-Code")


async def test_a_question_is_told_with_what_answers_it_and_is_answered(here: Place) -> None:
    asking = asks("How sure?", schema={"type": "integer", "minimum": 1})
    async with wired(here, asking, "Thanks.") as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)
        assert told["status"] == "input_required"
        (question,) = told["questions"]
        assert (question["text"], question["schema"]["type"]) == ("How sure?", "integer")

        wrong = await wire("answer_question", run=told["run"], answer="very")
        assert (wrong["heard"]["handling"], wrong["status"]) == ("reject", "input_required")
        told = await wire(
            "answer_question",
            run=told["run"],
            answer=7,
            question=question["question"],
            wait_s=60,
        )
        assert (told["heard"]["handling"], told["output"]) == ("answer", "Thanks.")


async def test_words_answer_no_question_by_chance(here: Place) -> None:
    async with wired(here, asks("Sure?"), "As you say.") as wire:
        run = (await wire("start_run", workflow="talk", wait_s=60))["run"]

        assert "asks q1: Sure?" in await wire.refused("say_to_run", run=run, text="yes")
        told = await wire("say_to_run", run=run, text="stop that", policy="interrupt", wait_s=60)

        assert told["output"] == "As you say."
        facts = await wire.engine.facts(run)
        assert not [f for f in facts if isinstance(f.event, midstream.QuestionAnswered)]


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_goes_to_the_clients_user_as_a_form(here: Place, era: str) -> None:
    elicit, shown = form("accept", {"answer": "blue"})
    script = (asks("Which \x1b[31mcolour?", choices=["red", "blue"]), "Blue it is.")
    async with wired(here, *script, era=era, elicit=elicit) as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)

        assert told["output"] == "Blue it is."
        assert "\x1b" not in shown[0].message
        assert shown[0].requested_schema["properties"]["answer"]["enum"] == ["red", "blue"]
        facts = [each.event for each in await wire.engine.facts(told["run"])]
        said = [fact.source for fact in facts if isinstance(fact, midstream.InputReceived)]
        assert said == ["mcp:Claude-Code"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_form_that_is_declined_leaves_the_question_open(
    here: Place, era: str, action: str
) -> None:
    elicit, shown = form(action)
    async with wired(here, asks("Sure?"), "Fine.", era=era, elicit=elicit) as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)

        assert (told["status"], len(shown)) == ("input_required", 1)
        told = await wire("answer_question", run=told["run"], answer="yes", wait_s=60)
        assert told["output"] == "Fine."


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_fails_to_ask_leaves_the_question_open(here: Place, era: str) -> None:
    async def elicit(_: Any, __: Any) -> ErrorData:
        return ErrorData(code=-32603, message="no screen")

    async with wired(here, asks("Sure?"), "Fine.", era=era, elicit=elicit) as wire:
        with contextlib.suppress(MCPError):  # the newer client's own
            assert (await wire("start_run", workflow="talk", wait_s=60))["questions"]
        (row,) = (await wire("list_runs"))["runs"]
        told = await wire("answer_question", run=row["run"], answer="yes")
        assert told["heard"]["handling"] == "answer"


async def test_a_form_that_nobody_fills_in_ends_when_the_question_is_answered_elsewhere(
    here: Place,
) -> None:
    shown = asyncio.Event()

    async def elicit(_: Any, __: Any) -> ElicitResult:
        shown.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with wired(here, asks("Sure?"), "Fine.", elicit=elicit) as wire:
        started = asyncio.create_task(wire("start_run", workflow="talk", wait_s=60))
        await shown.wait()
        (info,) = await wire.engine.runs()
        run = await wire.engine.get(info.id)

        await run.answer(run.questions[0], "yes")

        assert (await started)["output"] == "Fine."


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_a_client_can_do_approves_a_call_and_it_can_wait_for_who_does(
    here: Place, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ALIVE_S", 0.01)
    elicit, shown = form("accept", {"answer": "yes"})
    script = (call("write_file", path="a.txt", content="hi"), "Written.")
    async with wired(here, *script, era=era, elicit=elicit) as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)
        run, question = told["run"], "q1"

        assert told["status"] == "needs_a_person"
        assert f"/attach {run}" in told["next"]
        assert told["for_a_person"][0].startswith("An approval: write_file a.txt")
        assert (told.get("questions"), shown) == (None, [])
        for answer in ("yes", True, {"granted": True}):
            refused = await wire.refused(
                "answer_question", run=run, answer=answer, question=question
            )
            assert "Only a person" in refused
        assert "nothing that you can answer" in await wire.refused(
            "answer_question", run=run, answer="y"
        )
        assert not (here.workspace / "a.txt").exists()

        waits = asyncio.create_task(wire("run_status", run=run, wait_s=60))
        await wire.hears("dude is waiting for your approval")
        person = await wire.engine.get(run)
        await person.approve(person.questions[0])
        assert (await waits)["output"] == "Written."
        assert (here.workspace / "a.txt").read_text() == "hi"


async def test_a_budget_is_raised_by_a_person_alone(here: Place) -> None:
    elicit, shown = form("accept", {"answer": "no limit"})
    script = (call("find_files", glob="*"), call("find_files", glob="*"), "Done.")
    async with wired(here, *script, elicit=elicit) as wire:
        told = await wire("start_run", workflow="talk", budget={"tool_calls": 1}, wait_s=60)
        run = told["run"]

        assert (told["status"], shown) == ("needs_a_person", [])
        assert told["for_a_person"][0].startswith("A budget: ")
        refused = await wire.refused("answer_question", run=run, answer="no limit", question="q1")
        assert "Only a person" in refused
        told = await wire("say_to_run", run=run, text="no limit", wait_s=60)
        assert told["heard"]["handling"] == "interrupt"
        assert wire.engine.local.machine(run).run.usage.is_over_budget  # type: ignore[union-attr]


def test_what_became_of_a_call_is_a_persons_to_say() -> None:
    asked = Question(id="q1", number=1, kind="question", text="?", choices=tuple(OUTCOMES))
    assert not is_for_programs(asked)


async def test_a_call_that_needs_a_person_can_be_refused_instead(here: Place) -> None:
    write(here.workspace, ".midstream/workflows/talk.json", json.dumps(TALK))
    engine = await here.engine(call("write_file", path="a", content="x"), "No.", trust=True)

    async def given() -> midstream.Engine:
        return engine

    async with asyncio.timeout(DEADLINE_S), Client(server_of(given, approvals="deny")) as client:
        result = await client.call_tool("start_run", {"workflow": "talk", "wait_s": 60})
        assert result.structured_content["output"] == "No."
        assert not (here.workspace / "a").exists()


async def test_events_are_read_a_page_at_a_time_in_plain_words_and_typed(here: Place) -> None:
    async with wired(here, call("find_files", glob="*.py"), "All done.") as wire:
        run = (await wire("start_run", workflow="talk", input="greet", wait_s=60))["run"]

        every, since, is_end = list[dict[str, Any]](), 0, False
        while not is_end:
            page = await wire("run_events", run=run, since=since, limit=3, typed=True)
            every += page["events"]
            since, is_end = page["next"], page["is_end"]

        facts = await wire.engine.facts(run)
        assert [each["event"] for each in every] == [
            json.loads(json.dumps(fact.to_dict())) for fact in facts
        ]
        words = [each["words"] for each in every]
        assert words[0] == "talk begins, started by mcp:Claude-Code"
        assert "dude calls find_files(*.py)" in words
        assert "dude: All done." in words
        assert words[-1] == "finished: All done."


async def test_cancelling_a_call_ends_the_wait_and_the_run_goes_on(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ALIVE_S", 0.01)
    gate = Gate()
    async with wired(here, says("a", "b", gate=gate, after=1)) as wire:
        run = (await wire("start_run", workflow="talk"))["run"]
        await gate.reached()
        waits = asyncio.create_task(wire("run_status", run=run, wait_s=600))
        await wire.hears("dude is thinking")
        waits.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waits

        assert (await wire("run_status", run=run))["status"] == "running"
        gate.open()
        assert (await wire("run_status", run=run, wait_s=60))["output"] == "ab"


async def test_the_time_of_a_call_ends_the_wait_alone_and_until_then_it_says_it_is_alive(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ALIVE_S", 0.01)
    gate = Gate()
    async with wired(here, says("a", gate=gate)) as wire:
        run = (await wire("start_run", workflow="talk"))["run"]
        await gate.reached()
        call_of_it = asyncio.create_task(wire("run_status", run=run, wait_s=25))
        await wire.hears("dude is thinking")
        assert not call_of_it.done()

        jump(25)

        assert (await call_of_it)["status"] == "running"
        gate.open()


async def test_the_same_key_starts_one_run_and_says_a_thing_once(here: Place) -> None:
    gate = Gate()
    async with wired(here, says("a", "b", gate=gate, after=1), "Yes.") as wire:
        first, again = await asyncio.gather(
            *(wire("start_run", workflow="talk", key="k") for _ in range(2))
        )
        assert first["run"] == again["run"]
        await gate.reached()

        told = await wire("say_to_run", run=first["run"], text="shorter", key="s", wait_s=60)
        again = await wire("say_to_run", run=first["run"], text="shorter", key="s")

        assert told["heard"] == again["heard"]
        facts = await wire.engine.facts(first["run"])
        assert len([f for f in facts if isinstance(f.event, midstream.InputReceived)]) == 1
        async with wired(here, engine=wire.engine, name="other") as other:
            gate.open()
            told = await other("start_run", workflow="role:dude", key="k")
            assert told["run"] != first["run"]


async def test_a_chat_goes_on_with_what_is_said_to_it(here: Place) -> None:
    async with wired(here, "Hello.", "Four.") as wire:
        told = await wire("start_run", workflow="role:dude", input="Hi", wait_s=60)
        assert (told["status"], told["reply"]) == ("input_required", "Hello.")
        assert told["next"] == "It waits for words: say_to_run."

        told = await wire("say_to_run", run=told["run"], text="2 + 2?", wait_s=60)
        assert told["reply"] == "Four."


async def test_a_run_that_was_left_goes_on_here_once_it_is_waited_for(here: Place) -> None:
    gate = Gate()
    async with wired(here, says("a", "b", gate=gate, after=1)) as wire:
        run = (await wire("start_run", workflow="talk"))["run"]
        await gate.reached()
        await wire.engine.close()
    async with wired(here, "Again.") as wire:
        assert (await wire("run_status", run=run))["status"] == "left"
        assert (await wire("stop_run", run=run, how="halt"))["status"] == "left"
        assert here.models[-1].requests == []
        assert (await wire("list_runs"))["runs"][0]["process"] == "none"

        told = await wire("run_status", run=run, wait_s=60)
        assert (told["status"], told["output"]) == ("finished", "Again.")


async def test_a_run_of_another_process_is_steered_where_it_runs(here: Place) -> None:
    gate = Gate()
    elsewhere = await here.engine(says("a", "b", gate=gate, after=1), "Fine.")
    run = await elsewhere.start(TALK)
    await gate.reached()
    async with wired(here) as wire:
        told = await wire("say_to_run", run=run.id, text="stop that", wait_s=60)

        assert (told["process"], told["output"]) == ("none", "Fine.")
        assert [each.source for each in await _heard(elsewhere, run.id)] == ["mcp:Claude-Code"]


async def _heard(engine: midstream.Engine, run: str) -> list[midstream.InputReceived]:
    facts = [each.event for each in await engine.facts(run)]
    return [fact for fact in facts if isinstance(fact, midstream.InputReceived)]


async def test_what_a_model_leaves_out_by_writing_null_is_left_out(here: Place) -> None:
    async with wired(here, "Done.") as wire:
        left_out = {"input": None, "key": None, "budget": {"usd": 1, "tokens": None}}
        told = await wire("start_run", workflow="talk", wait_s=60, **left_out)
        assert told["output"] == "Done."
        assert len((await wire("list_runs", status=None, after=None))["runs"]) == 1


async def test_a_run_is_halted_and_ended(here: Place) -> None:
    gate = Gate()
    async with wired(here, says("a", "b", gate=gate, after=1), "Back.") as wire:
        run = (await wire("start_run", workflow="talk"))["run"]
        await gate.reached()

        told = await wire("stop_run", run=run, how="halt")
        assert told["doing"] == "stopped here, waiting for your words"
        assert (await wire("stop_run", run=run, how="end"))["status"] == "stopped"
        events = await wire("run_events", run=run)
        assert events["events"][-1]["words"] == "stopped: stopped by mcp:Claude-Code"


async def test_twenty_runs_are_started_and_waited_for_at_once(here: Place) -> None:
    async with wired(here, lambda request: f"{request.messages[-1].text}!") as wire:
        told = await asyncio.gather(
            *(wire("start_run", workflow="talk", input=str(n), wait_s=60) for n in range(20))
        )
        assert [each["output"] for each in told] == [f"{n}!" for n in range(20)]
        assert len({each["run"] for each in told}) == 20
        first = await wire("list_runs", limit=15)
        rest = await wire("list_runs", limit=15, after=first["next"])
        assert len({row["run"] for row in (*first["runs"], *rest["runs"])}) == 20
        assert rest["next"] == ""


async def test_a_run_is_a_resource(here: Place) -> None:
    async with wired(here, "Done.") as wire:
        run = (await wire("start_run", workflow="talk", wait_s=60))["run"]

        (resource,) = (await wire.client.list_resources()).resources
        contents = (await wire.client.read_resource(resource.uri)).contents

        assert resource.uri == f"midstream://runs/{run}"
        assert json.loads(contents[0].text)["output"] == "Done."  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="There is no run"):
            await wire.client.read_resource("midstream://runs/nothing-here")


DEEP: Any = "x"
for _ in range(70):
    DEEP = [DEEP]

HOSTILE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("start_run", {}, "workflow"),
    ("start_run", {"workflow": 7}, "Expected `str`, got `int`, at `workflow`"),
    ("start_run", {"workflow": "talk", "allowed": ["*"]}, "allowed"),
    ("start_run", {"workflow": "talk", "permissions": "full"}, "permissions"),
    ("start_run", {"workflow": "evil.py:flow"}, "There is no workflow"),
    ("start_run", {"workflow": "evil.py"}, "There is no workflow"),
    ("start_run", {"workflow": "/etc/passwd"}, "There is no workflow"),
    ("start_run", {"workflow": "../../x.json"}, "There is no workflow"),
    ("start_run", {"workflow": "talk\x00"}, "NUL"),
    ("start_run", {"workflow": "talk", "input": DEEP}, "nested deeper"),
    ("start_run", {"workflow": "talk", "input": 2**70}, "64 bits"),
    ("start_run", {"workflow": "talk", "budget": {"usd": -1}}, "usd"),
    ("start_run", {"workflow": "talk", "wait_s": 1e9}, "wait_s"),
    ("start_run", {"workflow": "talk", "wait_s": "60"}, "wait_s"),
    ("run_status", {"run": ""}, "run"),
    ("run_status", {"run": "x" * 300}, "run"),
    ("run_status", {"run": "%"}, "There is no run"),
    ("run_events", {"run": "RUN", "since": -1}, "since"),
    ("run_events", {"run": "RUN", "limit": 10**9}, "limit"),
    ("say_to_run", {"run": "RUN", "text": "y" * 100_001}, "text"),
    ("say_to_run", {"run": "RUN", "text": ""}, "text"),
    ("say_to_run", {"run": "RUN", "text": ["a"]}, "text"),
    ("say_to_run", {"run": "RUN", "text": "a", "policy": "approve"}, "policy"),
    ("answer_question", {"run": "RUN", "answer": "a", "question": "q9"}, "no question"),
    ("stop_run", {"run": "RUN", "how": "delete"}, "how"),
)


async def test_whatever_is_asked_wrongly_is_said_in_words_and_nothing_happens(here: Place) -> None:
    ran = here.workspace / "ran"
    write(here.workspace, "evil.py", f"open({str(ran)!r}, 'w')\n")
    async with wired(here, asks("Sure?")) as wire:
        run = (await wire("start_run", workflow="talk", wait_s=60))["run"]
        before = (await wire("run_status", run=run))["last_event"]
        for tool, arguments, words in HOSTILE:
            given = {key: run if each == "RUN" else each for key, each in arguments.items()}
            refused = (await wire.result(tool, **given)).model_dump_json()
            assert words.replace('"', "") in refused, (tool, arguments, refused)

        assert (await wire("run_status", run=run))["last_event"] == before
        assert len((await wire("list_runs"))["runs"]) == 1
        assert not ran.exists()
        with pytest.raises(MCPError, match="There is no tool"):
            await wire.client.call_tool("approve", {"run": run})


TEXTS = (
    "",
    "talk",
    "role:",
    "q1",
    "@dude x",
    "/help",
    "#1 yes",
    "\x1b[31m",
    "\u202e",
    "x" * 5000,
    "end",
)
NUMBERS = (0, 1, -1, 2**53, 2**64, 1e308, 0.5, True, False, None)


def anything(chance: random.Random, depth: int = 0) -> Any:
    """Return a JSON value."""
    match chance.randrange(4 if depth < 3 else 2):
        case 0:
            return chance.choice(NUMBERS)
        case 2:
            return [anything(chance, depth + 1) for _ in range(chance.randrange(3))]
        case 3:
            return {chance.choice(TEXTS): anything(chance, depth + 1)}
        case _:
            return chance.choice(TEXTS)


async def test_no_call_whatever_its_arguments_is_a_bug_of_ours(here: Place) -> None:
    def reply(request: Any) -> Any:
        asked = (asks("Sure?"), "Done.", call("write_file", path="a", content="b"))
        return asked[len(request.messages) % len(asked)]

    chance = random.Random(17)
    async with wired(here, reply) as wire:
        runs = [(await wire("start_run", workflow="talk"))["run"] for _ in range(3)]
        for _ in range(300):
            tool = chance.choice(list(TOOLS.values()))
            names = [field.encode_name for field in msgspec.structs.fields(tool.takes)]
            given = {name: anything(chance) for name in names if chance.random() < 0.7}
            given |= {"run": chance.choice(runs)} if "run" in given else {}
            given |= {"workflow": "talk"} if "workflow" in given else {}
            given |= {"wait_s": 0} if isinstance(given.get("wait_s"), float) else {}
            result = await wire.result(tool.name, **given)
            assert REPORT_BUG not in result.model_dump_json(), (tool.name, given)


async def test_runs_of_other_folders_are_out_of_reach(here: Place, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with (
        asyncio.timeout(DEADLINE_S),
        midstream.open(
            tmp_path / "other",
            model=ScriptedModel(asks("Secret?")),
            journal=here.journal,
        ) as other,
    ):
        run = await other.start(TALK, "a secret")
        await run.settled()
        async with wired(here) as wire:
            for tool, more in (
                ("run_status", {}),
                ("run_status", {"wait_s": 5}),
                ("run_events", {}),
                ("say_to_run", {"text": "hi"}),
                ("answer_question", {"answer": "yes"}),
                ("stop_run", {"how": "end"}),
            ):
                refused = await wire.refused(tool, run=run.id, **more)
                assert "belongs to another folder" in refused
                assert "secret" not in refused.casefold()
            assert (await wire("list_runs"))["runs"] == []
        assert run.status == "waiting"


async def test_what_a_client_brings_back_that_is_not_ours_is_refused(here: Place) -> None:
    async with wired(here, "Done.", era="auto") as wire:
        for state in ("", "[]", '{"run": 1}', "x" * 100_000):
            result = await wire.client.call_tool(
                "start_run", {"workflow": "talk"}, request_state=state
            )
            assert result.is_error
        assert (await wire("list_runs"))["runs"] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("codex", "mcp:codex"),
        ("\x1b[31m user\n", "mcp:31m-user"),
        ("user", "mcp:user"),
        ("語", "mcp:client"),
        ("x" * 500, f"mcp:{'x' * 40}"),
    ],
)
async def test_whose_words_they_are_is_plain_whatever_a_client_calls_itself(
    here: Place, name: str, source: str
) -> None:
    async with wired(here, "Hello.", name=name) as wire:
        run = (await wire("start_run", workflow="role:dude", input="Hi", wait_s=60))["run"]
        assert [each.source for each in await _heard(wire.engine, run)] == [source]


async def test_choices_that_cannot_be_drawn_are_chosen_by_number(here: Place) -> None:
    elicit, shown = form("accept", {"answer": "2"})
    script = (asks("Which?", choices=["\x1b[31mred", "blue"]), "Blue it is.")
    async with wired(here, *script, elicit=elicit) as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)
        assert told["output"] == "Blue it is."
        field = shown[0].requested_schema["properties"]["answer"]
        assert field["description"] == "By number: 1 ␛[31mred, 2 blue"


async def test_a_chat_of_another_agent_is_none_that_a_person_goes_on_with(here: Place) -> None:
    async with wired(here, "Hello.") as wire:
        run = (await wire("start_run", workflow="role:dude", input="Hi", wait_s=60))["run"]
        kept = await wire.engine.local.store.run(run)
        assert kept is not None
        assert kept.summary.is_unattended


async def test_pages_of_events_stay_small_whatever_is_in_them(here: Place) -> None:
    async with wired(here, "y" * 150_000) as wire:
        run = (await wire("start_run", workflow="talk", input="x" * 150_000, wait_s=60))["run"]
        seen, since, is_end = list[int](), 0, False
        while not is_end:
            page = await wire("run_events", run=run, since=since, limit=200, typed=True)
            assert len(json.dumps(page)) < 400_000
            seen += [each["seq"] for each in page["events"]]
            since, is_end = page["next"], page["is_end"]
        assert seen == [*range(1, len(seen) + 1)]
        assert any("left_out" in each["event"] for each in page["events"])


async def test_an_output_that_is_too_long_is_told_as_far_as_it_goes(here: Place) -> None:
    async with wired(here, "y" * 150_000) as wire:
        told = await wire("start_run", workflow="talk", wait_s=60)
        assert len(told["output"]) == 100_000
        assert told["left_out"].startswith("+50,000 characters: midstream show ")
        events = await wire("run_events", run=told["run"])
        assert events["events"][-1]["words"].endswith(" characters]")


FORMS: tuple[tuple[dict[str, Any] | None, Any, Any], ...] = (
    (None, {"answer": "x"}, "x"),
    ({"type": "string", "minLength": 2, "pattern": "a"}, {"answer": "ab"}, "ab"),
    ({"type": "integer", "minimum": 1}, {"answer": 3}, 3),
    ({"type": "boolean"}, {"answer": False}, False),
    ({"enum": ["a", "b"]}, {"answer": "a"}, "a"),
    ({"enum": [1, 2]}, {"answer": "1"}, "1"),
    ({"type": "array", "items": {"type": "string"}}, {"answer": '["a"]'}, '["a"]'),
    (
        {
            "type": "object",
            "properties": {"kind": {"enum": ["bug"]}, "n": {"type": "number"}},
            "required": ["kind"],
        },
        {"kind": "bug", "n": None},
        {"kind": "bug"},
    ),
    (
        {"type": "object", "properties": {"answer": {"type": "string"}}},
        {"answer": "x"},
        {"answer": "x"},
    ),
    (
        {"type": "object", "properties": {"deep": {"type": "object"}}},
        {"answer": '{"deep": {}}'},
        '{"deep": {}}',
    ),
    ({"type": "object"}, {"answer": "{}"}, "{}"),
    ({"type": ["string", "null"]}, {"answer": "x"}, "x"),
    ({"anyOf": [{"type": "string"}]}, {"answer": "x"}, "x"),
    ({"type": "object", "properties": 7, "required": 8}, {"answer": "{}"}, "{}"),
    ({"enum": ["\x1b[31m", "b"]}, {"answer": "b"}, "b"),
    ({"type": "object", "properties": {"\u202e": {"type": "string"}}}, {"answer": "{}"}, "{}"),
)


def texts(value: Any) -> Iterator[str]:
    """Yield every text within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts(each)


def test_any_schema_becomes_a_form_that_clients_take_and_the_answer_is_read_back() -> None:
    from mcp_types import ElicitRequestFormParams
    from mcp_types._v2025_11_25 import ElicitRequestFormParams as Strict

    for schema, content, answer in FORMS:
        question = Question(id="q1", number=1, kind="question", text="?", schema=schema)
        made = ElicitRequestFormParams(message="?", requested_schema=form_of(question))
        Strict.model_validate(made.model_dump(by_alias=True, exclude_none=True))
        assert answer_in(question, content) == answer, schema
        assert all(sanitized(text) == text for text in texts(made.requested_schema)), schema
        assert not answer_in(question, None), schema
