"""External agents in the machine: a fake one with gates, the real policy and real files of a workspace."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from deadline import DEADLINE_S
from machine_kit import replayed, rounds

from midstream.core import events as e
from midstream.core.codec import decode_run, encode_run
from midstream.core.question import Decision
from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.record import from_facts
from midstream.runtime.agent import WorkflowAgent
from midstream.runtime.engine.run_files import changed_files
from midstream.runtime.external_prompt import BEFORE, CUT, DONE, NOW, told_to
from midstream.runtime.file_watch import MAX_FILE_BYTES, written_so_far
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import (
    ExternalCall,
    ExternalListener,
    ExternalPrompt,
    ModelReply,
    ProposedText,
    World,
)
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.capability import PermissionMode
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeBlobStore,
    JumpingClock,
    ScriptedModel,
    define,
    fake_world,
    says,
)
from midstream.tools.manager import ToolManager
from midstream.tools.validation import validate
from midstream.views.side_effects import side_effects

Turn = Callable[[ExternalPrompt, ExternalListener], Awaitable[str]]


class FakeAgents:
    """Plays turns, one a prompt, and keeps sessions as a real one does, one for each owner and agent."""

    def __init__(self, *turns: Turn) -> None:
        self.prompts: list[tuple[str, str]] = []
        self.ended: list[str] = []
        self.stopped = 0
        self.can_load = True
        self._turns = list(turns)
        self._open: dict[tuple[str, str], str] = {}

    async def prompt(self, prompt: ExternalPrompt, listener: ExternalListener) -> ModelReply:
        who = (prompt.owner, prompt.agent)
        is_known = bool(prompt.session) and (self._open.get(who) == prompt.session or self.can_load)
        session = prompt.session if is_known else f"s{len(self.prompts) + 1}"
        self._open[who] = session
        await listener.opened(session, is_new=not is_known)
        self.prompts.append((session, prompt.text if is_known else prompt.whole))
        try:
            text = await self._turns.pop(0)(prompt, listener)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.stopped += 1
            raise
        usage = e.Usage(model=f"acp:{prompt.agent}", input_tokens=3, output_tokens=4)
        return ModelReply(text=text, usage=usage)

    async def end(self, run: str) -> None:
        self.ended.append(run)


def said(text: str) -> Turn:
    async def turn(_: ExternalPrompt, listener: ExternalListener) -> str:
        listener.text(text)
        return text

    return turn


def hangs(text: str, *calls: ExternalCall) -> Turn:
    """Return a turn that says something, begins calls, and never ends by itself."""

    async def turn(_: ExternalPrompt, listener: ExternalListener) -> str:
        listener.text(text)
        for call in calls:
            await listener.called(call)
        await asyncio.Event().wait()
        return text

    return turn


def flow(*states: dict[str, Json], **fields: Json) -> dict[str, Json]:
    return {
        "contexts": [{"name": "talk"}],
        "agents": [
            {"name": "claude", "context": "talk", "acp": ["claude-acp"]},
            {"agent_role": "critic", "context": "talk", "role": "user"},
        ],
        "states": list(states),
        **fields,
    }


START: dict[str, Json] = {"name": "start", "agent": "claude", "prompt": "tidy it"}
RESUME: dict[str, Json] = {"name": "resume", "agent": "claude"}
ONE = flow(START)


class Scene:
    def __init__(
        self, workflow: dict[str, Json], agents: FakeAgents, folder: Path, mode: PermissionMode
    ) -> None:
        self.agents = agents
        self.told = Chronicle()
        self.journal = MemoryStore()
        self.clock = JumpingClock()
        self.mode: PermissionMode = mode
        tools = ToolManager(policy=lambda: Policy(mode=self.mode))
        fakes = fake_world(
            ScriptedModel(says("hm")),
            tools=tools,
            journal=self.journal,
            blobs=FakeBlobStore(),
            clock=self.clock,
            validate=validate,
            workspace=folder,
        )
        self.world: World = msgspec.structs.replace(fakes, agents=agents)
        self.definition = define(workflow, tools=tools)
        self.machine = WorkflowStateMachine(self.definition, self.world, tap=self.told)

    @property
    def kinds(self) -> list[str]:
        return self.told.kinds()

    async def gone_on(self, *turns: Turn) -> None:
        """Let the process die here, and another one go on with the run."""
        run = replayed(self.machine.id, await self.journal.read(self.machine.id))
        self.agents = FakeAgents(*turns)
        self.world = msgspec.structs.replace(self.world, agents=self.agents)
        dead, self.machine = (
            self.machine,
            WorkflowStateMachine(self.definition, self.world, id=run.id, tap=self.told),
        )
        dead._in_flight.close()
        assert dead._task is not None
        dead._task.cancel()
        await asyncio.wait((dead._task,))
        await self.machine.resume(run, was_cut=True)


@asynccontextmanager
async def scene(
    folder: Path,
    workflow: dict[str, Json],
    *turns: Turn,
    mode: PermissionMode = "ask",
) -> AsyncIterator[Scene]:
    async with asyncio.timeout(DEADLINE_S):
        here = Scene(workflow, FakeAgents(*turns), folder, mode)
        await here.machine.start("x")
        yield here
        await here.machine.stop()
    journaled = await here.journal.read(here.machine.id)
    assert replayed(here.machine.id, journaled) == here.machine.run
    assert here.machine.id in here.agents.ended


def edit(id: str, path: str, new: str, old: str | None = None) -> ExternalCall:
    text = ProposedText(path=path, new=new, old=old)
    return ExternalCall(id=id, title=f"Edit {path}", kind="edit", paths=(path,), texts=(text,))


async def test_its_words_stream_and_its_reply_goes_on_the_run(tmp_path: Path) -> None:
    async with scene(tmp_path, ONE, said("Tidied.")) as here:
        run = await here.machine.wait()

    assert (run.status, run.output) == ("finished", "Tidied.")
    assert here.told.shown("claude") == "Tidied."
    assert here.agents.prompts == [("s1", "tidy it")]
    [(who, usage)] = run.usage.requests
    assert (who, usage.model, usage.input_tokens) == ("claude", "acp:claude", 3)


async def test_the_next_prompt_holds_only_what_is_new(tmp_path: Path) -> None:
    three = flow(
        {**START, "next": "judge"},
        {"name": "judge", "agent": "critic", "next": "again"},
        {"name": "again", "agent": "claude", "prompt": "better"},
    )

    async with scene(tmp_path, three, said("one"), said("two")) as here:
        await here.machine.wait()

    assert here.agents.prompts == [("s1", "tidy it"), ("s1", "hm\n\nbetter")]


async def test_words_stop_it_and_what_was_cut_is_told_again_marked(tmp_path: Path) -> None:
    cut = hangs("I will", ExternalCall(id="1", title="Run make", kind="execute", command="make"))

    async with scene(tmp_path, flow(START, RESUME), cut, said("Renamed.")) as here:
        await here.told.until("tool_called")
        await here.machine.say("no, rename")
        run = await here.machine.wait()

    assert here.agents.stopped == 1
    [_, (session, again)] = here.agents.prompts
    assert session == "s1"
    assert again == (
        f"tidy it\n\n{CUT}\nI will\n{DONE}\n- execute: Run make: unknown\n\n{NOW}\n\nno, rename"
    )
    assert here.kinds.index("agent_stopped") < here.kinds.index("state_transition", 3)
    assert run.output == "Renamed."


async def test_after_a_crash_it_goes_on_in_its_session_or_is_told_all_there_was(
    tmp_path: Path,
) -> None:
    for can_load in (True, False):
        async with scene(tmp_path, ONE, hangs("I am")) as here:
            await here.told.until("text_delta")
            await rounds()
            here.clock.jump(2)
            await here.told.until("reply_shown")
            turns = (said("Done."),)
            run = replayed(here.machine.id, await here.journal.read(here.machine.id))
            assert run.sessions["claude"].id == "s1"
            await here.gone_on(*turns)
            here.agents.can_load = can_load
            run = await here.machine.wait()
            [(session, text)] = here.agents.prompts

        assert run.output == "Done."
        assert session == "s1"
        assert f"{CUT}\nI am" in text
        assert text.count("tidy it") == 1


async def test_a_call_it_asks_about_is_shown_and_a_yes_or_no_goes_back(tmp_path: Path) -> None:
    answers: list[bool] = []

    async def asks(_: ExternalPrompt, listener: ExternalListener) -> str:
        for number in ("1", "2"):
            permission = await listener.permit(edit(number, f"{number}.py", "a = 1\n"))
            answers.append(permission.is_granted)
            await listener.returned(number, "completed" if permission.is_granted else "failed", "")
        return "Tried."

    async with scene(tmp_path, ONE, asks) as here:
        first = await here.told.until("question_asked")
        assert (await here.machine.settled()).is_parked
        await here.machine.approve(first.question_id, Decision(granted=True))
        second = await here.told.until("question_asked", count=2)
        await here.machine.approve(second.question_id, Decision(granted=False))
        run = await here.machine.wait()

    assert answers == [True, False]
    assert first.kind == "approval"
    assert "a = 1" in first.text
    assert first.asks[0] == "write: 1.py"
    assert run.output == "Tried."


async def test_the_policy_allows_and_refuses_without_anybody(tmp_path: Path) -> None:
    found: dict[str, bool] = {}

    async def asks(_: ExternalPrompt, listener: ExternalListener) -> str:
        for call in (
            edit("in", "a.py", "a"),
            ExternalCall(id="look", title="Read", kind="read", paths=("a.py",)),
            ExternalCall(id="secret", title="Read", kind="read", paths=(".env",)),
        ):
            found[call.id] = (await listener.permit(call)).is_granted
        return "Tried."

    async with scene(tmp_path, ONE, asks, mode="auto") as here:
        await here.machine.wait()

    assert found == {"in": True, "look": True, "secret": False}


async def test_what_it_writes_by_us_is_recorded_before_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")

    async def writes(_: ExternalPrompt, listener: ExternalListener) -> str:
        assert await listener.read_text("a.py") == "old\n"
        await listener.write_text(str(tmp_path / "a.py"), "new\n")
        return "Wrote."

    async with scene(tmp_path, ONE, writes, mode="auto") as here:
        run = await here.machine.wait()

    assert (run.output, (tmp_path / "a.py").read_text()) == ("Wrote.", "new\n")
    [written] = here.told.of(e.FileWritten)
    assert written.before is not None
    assert await here.world.blobs.get(written.before) == b"old\n"
    assert here.kinds.index("file_written") < here.kinds.index("tool_returned")


async def test_a_yes_to_a_shown_text_lets_it_be_written_and_no_other(tmp_path: Path) -> None:
    async def writes(_: ExternalPrompt, listener: ExternalListener) -> str:
        assert (await listener.permit(edit("1", "a.py", "new\n"))).is_granted
        await listener.write_text("a.py", "new\n")
        with pytest.raises(Exception, match="not written"):
            await listener.write_text("a.py", "evil\n")
        return "Wrote."

    async with scene(tmp_path, ONE, writes) as here:
        first = await here.told.until("question_asked")
        await here.machine.approve(first.question_id, Decision(granted=True))
        second = await here.told.until("question_asked", count=2)
        assert (tmp_path / "a.py").read_text() == "new\n"
        await here.machine.approve(second.question_id, Decision(granted=False))
        await here.machine.wait()

    assert (tmp_path / "a.py").read_text() == "new\n"


async def test_what_it_changes_without_telling_is_seen_and_can_be_taken_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept.py").write_text("as it was\n")
    (tmp_path / "gone.py").write_text("going\n")
    (tmp_path / "left.py").write_text("left\n")

    async def sneaks(_: ExternalPrompt, _listener: ExternalListener) -> str:
        await asyncio.to_thread((tmp_path / "kept.py").write_text, "changed it\n")
        await asyncio.to_thread((tmp_path / "gone.py").unlink)
        await asyncio.to_thread((tmp_path / "new.py").write_text, "new\n")
        return "Did."

    async with scene(tmp_path, ONE, sneaks) as here:
        await here.machine.wait()

    written = {Path(each.path).name: each for each in here.told.of(e.FileWritten)}
    assert sorted(written) == ["gone.py", "kept.py", "new.py"]
    assert await here.world.blobs.get(written["kept.py"].before or "") == b"as it was\n"
    assert (written["gone.py"].after, written["new.py"].before) == (None, None)
    facts = await here.journal.read(here.machine.id)
    assert len(side_effects(facts, 0).files) == 3


async def test_what_it_has_changed_so_far_is_seen_in_mid_turn_and_told_once(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("as it was\n")
    wrote, goes_on = asyncio.Event(), asyncio.Event()

    async def writes(_: ExternalPrompt, listener: ExternalListener) -> str:
        await asyncio.to_thread((tmp_path / "kept.py").write_text, "changed it\n")
        await listener.write_text("own.py", "asked for\n")
        wrote.set()
        await goes_on.wait()
        return "Did."

    async def so_far() -> list[str]:
        facts = await here.journal.read(here.machine.id)
        more = await written_so_far(here.machine.run, facts, here.world)
        assert [each.seq for each in more] == [*range(len(facts) + 1, len(facts) + 1 + len(more))]
        return [
            Path(each.event.path).name for each in more if isinstance(each.event, e.FileWritten)
        ]

    async with scene(tmp_path, ONE, writes, mode="full") as here:
        await wrote.wait()
        assert await so_far() == ["kept.py"]
        assert await so_far() == ["kept.py"]
        facts = await here.journal.read(here.machine.id)
        facts += await written_so_far(here.machine.run, facts, here.world)
        changes = await changed_files(here.world.blobs, facts)
        assert [each.diff.path for each in changes] == ["own.py", "kept.py"]
        assert "+changed it" in changes[1].diff.diff
        goes_on.set()
        await here.machine.wait()
        assert await so_far() == []

    written = [Path(each.path).name for each in here.told.of(e.FileWritten)]
    assert sorted(written) == ["kept.py", "own.py"]


async def test_what_it_had_changed_when_the_process_died_is_seen_by_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("as it was\n")

    async with scene(tmp_path, ONE, hangs("I am")) as here:
        await here.told.until("agent_prompted")
        (tmp_path / "a.py").write_text("half of it, and then\n")
        await here.gone_on(said("Done."))
        await here.machine.wait()

    written = here.told.of(e.FileWritten)
    assert len(written) >= 1
    assert await here.world.blobs.get(written[-1].before or "") == b"as it was\n"


async def test_its_failure_is_an_error_of_its_kind(tmp_path: Path) -> None:
    async def dies(_: ExternalPrompt, listener: ExternalListener) -> str:
        raise WorldTrouble("claude ended in mid-turn.", hint="Look at its log.")

    caught = flow({**START, "catch": [{"to": "sorry", "on": ["agent"]}]}, {"name": "sorry"})

    async with scene(tmp_path, caught, dies) as here:
        await here.machine.wait()

    [failed] = here.told.of(e.StateFailed)
    assert (failed.kind, failed.then) == ("agent", "catch")
    assert here.told.path() == ["start", "sorry", "stop"]


async def test_a_structured_reply_is_read_from_its_words_or_asked_for_again(tmp_path: Path) -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
    }
    wanted = flow({**START, "output_schema": schema, "save_as": "verdict"})
    right = said('Fine.\n```json\n{"ok": true}\n```')

    async with scene(tmp_path, wanted, said("Fine."), right) as here:
        run = await here.machine.wait()

    assert run.common_data["verdict"] == {"ok": True}
    [(_, first), (_, second)] = here.agents.prompts
    assert "JSON Schema" in first
    assert "holds no JSON object" in second
    assert second.startswith("Your answer holds no JSON object")


async def test_in_the_mode_plan_it_is_not_asked(tmp_path: Path) -> None:
    class Permits:
        mode: PermissionMode = "plan"

        def switch(self, mode: str) -> None:
            raise AssertionError

    here = Scene(ONE, FakeAgents(said("x")), tmp_path, "plan")
    world = msgspec.structs.replace(here.world, permits=Permits())
    machine = WorkflowStateMachine(here.definition, world)

    await machine.start("x")
    run = await machine.wait()

    assert run.status == "failed"
    assert "reading only" in run.error
    assert here.agents.prompts == []


async def test_where_there_are_no_agents_the_model_stands_in(tmp_path: Path) -> None:
    here = Scene(ONE, FakeAgents(), tmp_path, "ask")
    world = msgspec.structs.replace(here.world, agents=None)
    machine = WorkflowStateMachine(here.definition, world)

    await machine.start("x")
    run = await machine.wait()

    assert run.output == "hm"


async def test_steering_sends_a_new_prompt_when_the_old_has_stopped(tmp_path: Path) -> None:
    async with scene(tmp_path, ONE, hangs("I"), said("Both.")) as here:
        await here.told.until("text_delta")
        await here.machine.say("the docs, too", policy="steer")
        run = await here.machine.wait()

    assert here.agents.stopped == 1
    assert here.agents.prompts[1][1] == f"tidy it\n\n{CUT}\nI\n\n{NOW}\n\nthe docs, too"
    assert run.output == "Both."


async def test_stopping_the_run_waits_for_it_and_ends_its_program(tmp_path: Path) -> None:
    async with scene(tmp_path, ONE, hangs("I")) as here:
        await here.told.until("text_delta")
        await here.machine.stop()
        await rounds()

    assert here.agents.stopped == 1
    assert here.kinds[-1] == "run_stopped"
    assert "agent_stopped" in here.kinds


async def test_its_run_is_rehearsed_without_its_program(tmp_path: Path) -> None:
    async def asks(_: ExternalPrompt, listener: ExternalListener) -> str:
        await listener.permit(edit("1", "a.py", "a"))
        listener.text("I will")
        await asyncio.Event().wait()
        return ""

    async with scene(tmp_path, flow(START, RESUME), asks, said("Renamed.")) as here:
        question = await here.told.until("question_asked")
        await here.machine.approve(question.question_id, Decision(granted=True, for_run=True))
        await here.told.until("text_delta")
        await here.machine.say("no, rename")
        await here.machine.wait()
    facts = await here.journal.read(here.machine.id)

    rehearsal = from_facts(facts)
    again = await replay(rehearsal, here.definition, ScriptHandlers({}))

    assert again.difference is None
    assert again.run.contexts["talk"][1].text == "I will"


SIDE_BY_SIDE = flow(
    {
        "name": "start",
        "parallel": [
            {"name": "left", "states": [{"name": "l", "agent": "claude", "prompt": "left"}]},
            {"name": "right", "states": [{"name": "r", "agent": "claude", "prompt": "right"}]},
        ],
        "save_as": "both",
    },
    {"name": "resume", "agent": "claude", "prompt": "go on"},
)


async def test_in_branches_each_has_a_session_and_asks_for_itself(tmp_path: Path) -> None:
    async def asks(prompt: ExternalPrompt, listener: ExternalListener) -> str:
        permission = await listener.permit(edit("1", f"{prompt.text}.py", "a\n"))
        assert permission.is_granted
        await listener.write_text(f"{prompt.text}.py", "a\n")
        await listener.returned("1", "completed", "")
        return f"{prompt.owner.rpartition('/')[2]} done"

    async with scene(tmp_path, SIDE_BY_SIDE, asks, asks) as here:
        for count in (1, 2):
            question = await here.told.until("question_asked", count=count)
            await here.machine.approve(question.question_id, Decision(granted=True))
        run = await here.machine.wait()

    assert run.common_data["both"] == {"left": "left done", "right": "right done"}
    assert sorted(text for _, text in here.agents.prompts) == ["left", "right"]
    assert {Path(each.path).name for each in here.told.of(e.FileWritten)} == {"left.py", "right.py"}


async def test_a_halt_stops_those_of_all_branches_before_the_run_goes_on(tmp_path: Path) -> None:
    turns = (hangs("I"), hangs("me"), said("Heard."))

    async with scene(tmp_path, SIDE_BY_SIDE, *turns) as here:
        await here.told.until("text_delta", count=2)
        await here.machine.say("no")
        run = await here.machine.wait()

    assert here.agents.stopped == 2
    assert len(here.told.of(e.AgentStopped)) == 2
    assert run.output == "Heard."


async def test_a_fork_begins_a_session_of_its_own_and_is_told_all(tmp_path: Path) -> None:
    two = flow({**START, "next": "again"}, {"name": "again", "agent": "claude", "prompt": "better"})
    async with scene(tmp_path, two, said("one"), hangs("two")) as here:
        await here.told.until("agent_prompted", count=2)
        facts = await here.journal.read(here.machine.id)
    fork = replayed("fork", facts)

    told = told_to(fork, WorkflowAgent(fork, "claude"))

    assert fork.sessions["claude"].run == here.machine.id
    assert told.session == ""
    assert told.whole == (
        f"{BEFORE}\n\n[Somebody said:]\ntidy it\n\n[You said:]\none\n\n{NOW}\n\nbetter"
    )


async def test_a_snapshot_keeps_its_sessions_and_the_calls_under_way(tmp_path: Path) -> None:
    call = ExternalCall(id="1", title="Run make", kind="execute", command="make")
    async with scene(tmp_path, ONE, hangs("I", call)) as here:
        await here.told.until("tool_called")
        run = here.machine.run

    head, pages = encode_run(run)

    assert decode_run(head, pages) == run
    assert run.visit.turn is not None
    assert run.visit.turn.external


async def test_what_is_too_large_or_secret_is_named_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (tmp_path / ".env").write_text("KEY=one\n")

    async def sneaks(_: ExternalPrompt, _listener: ExternalListener) -> str:
        await asyncio.to_thread((tmp_path / "large.bin").write_bytes, b"y")
        await asyncio.to_thread((tmp_path / ".env").write_text, "KEY=another\n")
        return "Did."

    async with scene(tmp_path, ONE, sneaks) as here:
        await here.machine.wait()

    assert here.told.of(e.FileWritten) == []
    notes = [each.text for each in here.told.of(e.WorkflowOutput) if each.kind == "log"]
    assert notes == [
        "Changed, and what it held before was not kept, so /undo cannot put it back: .env, large.bin"
    ]
