"""AG-UI: every event is one by its own types, and what they tell is what happened."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from ag_ui.core import Event as AnyEvent
from ag_ui.core import RunAgentInput
from pydantic import TypeAdapter
from server_kit import engine_of, served

import midstream
from midstream.core import events as e
from midstream.server.agui import agui_routes
from midstream.testing import Gate, Scripted, asks, call, calls, says

TYPES: TypeAdapter[Any] = TypeAdapter(AnyEvent)


class Client:
    """A client by AG-UI's own types, which keeps what it has said and heard."""

    def __init__(self, address: str, engine: midstream.Engine) -> None:
        self.http = httpx2.AsyncClient(timeout=60)
        self.address = address
        self.engine = engine
        self.messages: list[Any] = []
        self.runs = 0

    async def run(self, agent: str, words: str = "", **more: Any) -> AsyncIterator[Any]:
        self.runs += 1
        if words:
            self.messages.append({"id": f"m{self.runs}", "role": "user", "content": words})
        given = {"threadId": "t1", "runId": f"r{self.runs}", "messages": self.messages, **more}
        sent = RunAgentInput.model_validate(given).model_dump(by_alias=True, mode="json")
        said: dict[str, str] = {}
        url = f"{self.address}/agui/{agent}"
        async with self.http.stream("POST", url, json=sent) as response:
            if response.status_code != 200:
                yield msgspec.json.decode(await response.aread())
                return
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    event = TYPES.validate_json(line[6:])
                    if event.type == "TEXT_MESSAGE_CONTENT":
                        said[event.message_id] = said.get(event.message_id, "") + event.delta
                    yield event
        self.messages += [
            {"id": id, "role": "assistant", "content": text} for id, text in said.items()
        ]

    async def all(self, agent: str, words: str = "", **more: Any) -> list[Any]:
        return [event async for event in self.run(agent, words, **more)]


@contextlib.asynccontextmanager
async def door(folder: Path, *script: Any, **settings: Any) -> AsyncIterator[Client]:
    async with (
        engine_of(folder, *script, **settings) as engine,
        served(agui_routes(engine)) as address,
    ):
        client = Client(address, engine)
        async with client.http:
            yield client


def types(events: list[Any]) -> list[str]:
    return [event.type.value for event in events]


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


async def test_a_thread_is_a_run_whose_replies_are_messages(tmp_path: Path) -> None:
    usage = e.Usage(model="m", input_tokens=7, output_tokens=2, cached_tokens=5)
    reply = Scripted(pieces=("Hello ", "there."), usage=usage)
    async with door(tmp_path, reply, "Fine.") as client:
        first = await client.all("role:dude", "Hi")
        assert [each for each in types(first) if not each.startswith("STEP")] == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        assert first[-1].outcome.type == "success"
        (used,) = first[-1].usage
        assert (used.input_tokens, used.output_tokens, used.cached_input_tokens) == (7, 2, 5)
        assert text(await client.all("role:dude", "How are you?")) == "Fine."
        assert len(await client.engine.runs()) == 1


async def test_steps_tools_and_data_are_told_of_a_workflow(tmp_path: Path) -> None:
    script = calls(call("find_files", glob="*.md")), "None."
    async with door(tmp_path, *script) as client:
        events = await client.all("workflow:kept", "which?")
        told = types(events)
        assert told.index("STEP_STARTED") < told.index("TOOL_CALL_START")
        assert [t for t in told if t.startswith("TOOL")] == [
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
        ]
        (delta,) = [event for event in events if event.type == "STATE_DELTA"]
        assert delta.delta[0].op == "add"
        assert (delta.delta[0].path, delta.delta[0].value) == ("/a~1b", "None.")
        assert told.count("STEP_STARTED") == told.count("STEP_FINISHED")
        assert events[-1].result == "None."


async def test_a_question_is_an_interrupt_and_resume_answers_it(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with door(tmp_path, asks("How many?", schema=schema), "Two.") as client:
        events = await client.all("workflow:haiku", "ponds")
        (interrupt,) = events[-1].outcome.interrupts
        assert interrupt.message == "How many?"
        assert interrupt.response_schema == schema
        assert text(events).startswith("How many?\nThe answer is JSON that fits")
        answer = {"interruptId": interrupt.id, "status": "resolved", "payload": {"n": "two"}}
        refused = await client.all("workflow:haiku", resume=[answer])
        assert refused[-1].type == "RUN_ERROR"
        answer["payload"] = {"n": 2}
        events = await client.all("workflow:haiku", resume=[answer])
        assert (text(events), events[-1].result) == ("Two.", "Two.")
        assert len(await client.engine.runs()) == 1


async def test_an_answer_may_come_under_the_id_of_the_request_that_asked(tmp_path: Path) -> None:
    # As CopilotKit resumes: the same runId, and all messages there are.
    script = "Hello.", asks("Which colour?", choices=["red", "blue"]), "Red it is."
    async with door(tmp_path, *script) as client:
        await client.all("role:dude", "Hi")
        events = await client.all("role:dude", "paint")
        (interrupt,) = events[-1].outcome.interrupts
        answer = {"interruptId": interrupt.id, "status": "resolved", "payload": "green"}
        (refused, *_) = [
            event
            for event in await client.all("role:dude", runId="r2", resume=[answer])
            if event.type == "RUN_ERROR"
        ]
        assert "'green' is not one of the choices" in refused.message
        answer["payload"] = "red"
        events = await client.all("role:dude", runId="r2", resume=[answer])
        assert text(events) == "Red it is."
        again = await client.all("role:dude", runId="r2", resume=[answer])
        assert text(again) == "Red it is."
        assert len(await client.engine.runs()) == 1


async def test_a_message_in_mid_reply_steers_and_ends_the_stream_before(tmp_path: Path) -> None:
    gate = Gate()
    async with door(tmp_path, says("An old ", "pond", gate=gate, after=1), "Snow.") as client:
        first = asyncio.create_task(client.all("role:dude", "a haiku"))
        await gate.reached()
        second = await client.all("role:dude", "about snow")
        assert text(second) == "Snow."
        events = await first
        assert text(events) == "An old "
        assert events[-1].outcome.type == "cancelled"
        assert len(await client.engine.runs()) == 1


async def test_a_client_that_goes_away_halts_the_turn(tmp_path: Path) -> None:
    gate = Gate()
    async with door(tmp_path, says("An old ", "pond", gate=gate, after=1)) as client:
        async for event in client.run("role:dude", "a haiku"):
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
        (info,) = await client.engine.runs()
        run = await client.engine.get(info.id)
        await run.settled()
        facts = await client.engine.facts(info.id)
        cuts = [x.event.partial for x in facts if isinstance(x.event, e.Interrupted)]
        assert cuts == ["An old "]


async def test_an_approval_is_told_and_waited_for_and_given_elsewhere(tmp_path: Path) -> None:
    script = calls(call("write_file", path="a.txt", content="a")), "Written."
    async with door(tmp_path, *script) as client:
        events: list[Any] = []
        async for event in client.run("role:dude", "write"):
            events.append(event)
            if event.type == "CUSTOM":
                assert event.value["text"] == "write_file a.txt"
                await (await client.engine.get(event.value["run"])).approve(event.value["question"])
        told, _, rest = text(events).partition("or in the browser (midstream web), ")
        assert told.startswith(
            "Waits for a yes: write_file a.txt. A person decides: in the console"
        )
        assert rest.endswith("Written.")
        assert (tmp_path / "work" / "a.txt").read_text() == "a"


async def test_a_budget_is_a_persons_to_raise(tmp_path: Path) -> None:
    usage = e.Usage(model="m", input_tokens=7, output_tokens=2)
    async with door(tmp_path, Scripted(pieces=("One.",), usage=usage), "Two.") as client:
        async for event in client.run("workflow:poor", "count"):
            if event.type == "CUSTOM":
                asked = event.value["question"]
                entry = {"interruptId": asked, "status": "resolved", "payload": "no limit"}
                (refused,) = await client.all("workflow:poor", resume=[entry])
                assert "a person's to decide" in refused["error"]
                break
        else:
            raise AssertionError("no budget was asked about")


async def test_the_same_request_again_says_nothing_twice(tmp_path: Path) -> None:
    async with door(tmp_path, "One.", "Two.") as client:
        first = await client.all("role:dude", "count")
        client.messages = client.messages[:1]
        again = await client.all("role:dude", runId="r1")
        assert text(first) == text(again) == "One."


async def test_the_same_request_again_has_nothing_of_the_reply_its_words_cut(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with door(tmp_path, says("An old ", "pond", gate=gate, after=1), "Snow.") as client:
        cut = asyncio.create_task(client.all("role:dude", "a haiku"))
        await gate.reached()
        told = await client.all("role:dude", "about snow")
        await cut
        client.messages = [each for each in client.messages if each["role"] == "user"]
        again = await client.all("role:dude", runId="r2")

    assert text(told) == text(again) == "Snow."


async def test_tools_a_page_offers_are_left_aside_and_that_is_said(tmp_path: Path) -> None:
    tool = {"name": "paint", "description": "Paints the page", "parameters": {"type": "object"}}
    async with door(tmp_path, "Hello.") as client:
        events = await client.all("role:dude", "Hi", tools=[tool])
        assert text(events) == "Hello."
        (left_out,) = [event.value for event in events if event.type == "CUSTOM"]
        assert left_out == ["tools"]


async def test_a_turn_that_fails_ends_with_its_reason(tmp_path: Path) -> None:
    async with door(tmp_path) as client:
        events = await client.all("role:dude", "Hi")
        assert events[-1].type == "RUN_ERROR"
        assert "script" in events[-1].message


async def test_what_is_not_taken_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with door(tmp_path) as client:
        rows: tuple[tuple[str, str, dict[str, Any], str], ...] = (
            ("role:nobody", "Hi", {}, "There is no agent 'role:nobody'."),
            ("role:dude", "", {"messages": []}, "Nothing is said"),
            (
                "role:dude",
                "Hi",
                {"resume": [{"interruptId": "q1", "status": "cancelled"}]},
                "not cancelled",
            ),
            (
                "role:dude",
                "Hi",
                {"resume": [{"interruptId": "q1", "status": "resolved", "payload": "x"}]},
                "Nothing is asked",
            ),
        )
        for agent, words, more, wanted in rows:
            (answer,) = await client.all(agent, words, **more)
            assert wanted in answer["error"]
            client.messages.clear()
        assert await client.engine.runs() == []


HTTP_AGENT = """
import { HttpAgent } from "@ag-ui/client";
const agent = new HttpAgent({ url: process.argv[2], threadId: "t1", initialState: {} });
const say = (content) => agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
const outcomes = [];
const seen = { onRunFinishedEvent: ({ event }) => { outcomes.push(event.outcome); } };
say("ponds");
await agent.runAgent({}, seen);
const [asked] = outcomes[0].interrupts;
await agent.runAgent({ resume: [{ interruptId: asked.id, status: "resolved", payload: "2" }] }, seen);
console.log(JSON.stringify({
  asked: asked.message,
  ended: outcomes[1].type,
  state: agent.state,
  messages: agent.messages.map(({ role, content }) => [role, content]),
}));
"""


@pytest.mark.slow
@pytest.mark.needs("npm")
async def test_ag_uis_own_client_answers_a_question_and_has_the_state(tmp_path: Path) -> None:
    npm = Path(__file__).parents[1] / "npm"
    async with door(tmp_path, asks("How many?"), says("Two ", "ponds.")) as client:
        running = await asyncio.create_subprocess_exec(
            *("node", "--input-type=module", "-", f"{client.address}/agui/workflow:kept"),
            cwd=npm,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await running.communicate(HTTP_AGENT.encode())
        assert running.returncode == 0, err.decode()
        assert msgspec.json.decode(out.splitlines()[-1]) == {
            "asked": "How many?",
            "ended": "success",
            "state": {"a/b": "Two ponds."},
            "messages": [
                ["user", "ponds"],
                ["assistant", None],
                ["tool", "2"],
                ["assistant", "How many?"],
                ["assistant", "Two ponds."],
            ],
        }
