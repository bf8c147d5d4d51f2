"""Hooks in a run: what they are told of it, and what of their words a run may keep.

A hook is told what is journaled, so secrets are taken out of that by now. What it says goes through the
redactor once more, as what a tool says does; arguments that it changes go the way of a model's own.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from midstream.core.call_notes import added_words
from midstream.core.events import (
    AgentResponded,
    Fact,
    HookRan,
    Interrupted,
    QuestionAsked,
    RunFailed,
    RunFinished,
    RunStopped,
    ToolEnded,
)
from midstream.core.inputs import EffectKey, RequestedCall, UserSaid
from midstream.core.notices import AnyNotice, ListenerFailed
from midstream.core.pending import CallTool, ReviewCall
from midstream.core.routing import branch_at, interrupts, question_asked
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.names import Json, Outcome
from midstream.runtime.json_values import kept_call
from midstream.runtime.ports import Hooks, World
from midstream.runtime.redact_results import cleaned_call
from midstream.runtime.text_limits import kept, short
from midstream.system.offloop import still_working

BEFORE_TOOL = "PreToolUse"
AFTER_TOOL = "PostToolUse"
WORDS = "UserPromptSubmit"


async def before_call(
    effect: ReviewCall, run: Run, world: World, workspace: Path
) -> tuple[HookRan, ...]:
    """Return what hooks had to say of a call before it is judged. It works in `workspace`."""
    if world.hooks is None or not world.hooks.has(BEFORE_TOOL, effect.name):
        return ()
    about = _call(run, effect.agent, effect.name, effect.arguments, effect.key, workspace)
    ran = await world.hooks.run(BEFORE_TOOL, about, name=effect.name)
    return await _cleaned(ran, effect.name, run, world)


def hears_of(outcome: Outcome, name: str, world: World) -> bool:
    """Return whether hooks have a say in a call after it has ended so."""
    is_done = outcome in ("completed", "failed")
    return is_done and world.hooks is not None and world.hooks.has(AFTER_TOOL, name)


async def after_call(
    effect: CallTool,
    ended: ToolEnded,
    run: Run,
    world: World,
    workspace: Path,
    stop: asyncio.Event,
) -> tuple[HookRan, ...]:
    """Return what hooks had to say of a call after it has ended. Setting `stop` kills the one that runs."""
    name = effect.call.name
    if world.hooks is None or not hears_of(ended.outcome, name, world):
        return ()
    about = _call(run, effect.agent, name, effect.arguments, effect.key, workspace)
    about["tool_response"] = {"outcome": ended.outcome, "text": ended.result}
    ran = await world.hooks.run(AFTER_TOOL, about, name=name, stop=stop)
    return await _cleaned(ran, name, run, world)


async def before_start(
    input: str, run: Run, world: World, notify: Callable[[AnyNotice], None]
) -> str:
    """Return the text a run is to begin with, with what hooks added to it.

    Raises:
        UserMistake: a hook refused it; nothing has begun.
    """
    ran = await _heard(input, "user", run, world)
    if refusal := refusal_of(ran):
        raise UserMistake(
            f"Nothing was started: {refusal}", hint="docs/hooks.md says how they run."
        )
    for each in ran:
        if each.problem:
            notify(_failure(each))
    return input + "".join(added_words(each) for each in ran if each.added)


async def before_words(said: UserSaid, run: Run, world: World) -> UserSaid:
    """Return words as hooks left them: refused, or with what they added. Answers get nothing added."""
    ran = await _heard(said.to.line, said.source, run, world)
    asked = question_asked(run, said.to)
    if asked is not None and (asked.kind != "input" or asked.schema is not None):
        ran = tuple(replace(each, added="") for each in ran)
    ran = tuple(each for each in ran if each.added or each.refused or each.problem)
    more = "".join(added_words(each) for each in ran if each.added)
    to = replace(said.to, text=said.to.text + more)
    return replace(said, to=to, hooks=ran, refused=refusal_of(ran))


def refusal_of(hooks: Iterable[HookRan]) -> str:
    """Return why a hook refused, "" where none did."""
    return next((f"the hook {ran.hook} says: {ran.refused}" for ran in hooks if ran.refused), "")


def arguments_of(hooks: Iterable[HookRan], before: dict[str, Json]) -> dict[str, Json]:
    """Return what a call is to be made with after hooks had their say."""
    for ran in hooks:
        before = before if ran.arguments is None else ran.arguments
    return before


def _call(
    run: Run, agent: str, name: str, arguments: dict[str, Json], key: EffectKey, workspace: Path
) -> dict[str, Json]:
    called = {"tool_name": name, "tool_input": arguments, "tool_use_id": str(key[-1])}
    return {**_who(run, agent), "cwd": str(workspace), **called}


def _who(run: Run, agent: str) -> dict[str, Json]:
    known = run.plan.agents.get(agent)
    role = "" if known is None else known.agent_role
    return {"session_id": run.id, "agent": agent, "role": role, "branch": run.branch.path}


async def _cleaned(
    hooks: tuple[HookRan, ...], name: str, run: Run, world: World
) -> tuple[HookRan, ...]:
    """Return what hooks said as it may be journaled."""
    found = []
    for ran in hooks:
        arguments = ran.arguments
        if arguments is not None:
            call = kept_call(RequestedCall(name=name, arguments=arguments))
            arguments = (await cleaned_call(call, run, world)).arguments
        clean = replace(
            ran,
            refused=short(ran.refused, world.redactor),
            problem=short(ran.problem, world.redactor),
            added=await kept(ran.added, world),
            arguments=arguments,
        )
        found.append(clean)
    return tuple(found)


async def _heard(words: str, source: str, run: Run, world: World) -> tuple[HookRan, ...]:
    assert world.hooks is not None
    about = {**_who(run, ""), "prompt": words, "source": source}
    return await _cleaned(await world.hooks.run(WORDS, about), "", run, world)


def _failure(ran: HookRan) -> ListenerFailed:
    return ListenerFailed(listener=f"hook {ran.hook} ({ran.event})", error=ran.problem)


def is_halted_by(said: UserSaid, run: Run) -> bool:
    """Return whether words halt the run as soon as they count, so that it need not wait for that."""
    if said.to.branch or said.policy not in (None, "interrupt"):
        return False
    return interrupts(said.to, run)


# --- what nobody can change any more ----------------------------------------------------------------


def told_of(fact: object, run: Run) -> tuple[str, dict[str, Json]] | None:
    """Return the event that a fact is for hooks that only hear of it, and what they are told; else None."""
    match fact:
        case QuestionAsked(kind="question" | "approval"):
            about = {"message": fact.text, "notification_type": fact.kind, "number": fact.number}
            return "Notification", {**_who(run, fact.agent), **about, "question": fact.question_id}
        case Interrupted(leads_to="words" | "hold" | "stop"):
            return "Halt", {**_who(run, fact.agent), "reason": fact.leads_to, "state": fact.state}
        case AgentResponded(is_final=True):
            return "Stop", {**_who(run, fact.agent), "last_assistant_message": fact.text}
        case RunFinished():
            return "SessionEnd", {**_who(run, ""), "reason": "finished", "output": fact.output}
        case RunFailed():
            return "SessionEnd", {**_who(run, ""), "reason": "failed", "error": fact.error}
        case RunStopped():
            return "SessionEnd", {**_who(run, ""), "reason": "stopped"}
        case _:
            return None


CLOSING_S = 10.0
"""Seconds that hooks get to hear the rest once the run has ended."""


class HookListener:
    """Tells hooks of what has happened, one after the other, in a task of its own: nothing waits for them.

    `notify` shows what went wrong with one.
    """

    def __init__(self, hooks: Hooks, notify: Callable[[AnyNotice], None]) -> None:
        self._hooks = hooks
        self._notify = notify
        self._waiting: asyncio.Queue[tuple[str, dict[str, Json]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._epochs: dict[str, int] = {}

    def hear(self, fact: Fact, run: Run) -> None:
        """Take a fact that has become true of a run. Returns at once."""
        if isinstance(fact, Interrupted):
            # More words that join a halt are told as it is: one halt.
            is_known = self._epochs.get(fact.branch) == fact.epoch
            self._epochs[fact.branch] = fact.epoch
            if is_known:
                return
        told = told_of(fact, branch_at(run, fact.branch) or run)
        if told is None or not self._hooks.has(told[0]):
            return
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="hooks")
        self._waiting.put_nowait(told)

    async def _work(self) -> None:
        while (told := await self._waiting.get()) is not None:
            for ran in await self._hooks.run(*told):
                if ran.problem:
                    self._notify(_failure(ran))

    async def close(self) -> None:
        """Return once hooks have heard the rest; what takes longer than `CLOSING_S` is killed."""
        if self._task is None:
            return
        self._waiting.put_nowait(None)
        try:
            await still_working({self._task}, CLOSING_S)
        finally:
            self._task.cancel()
        await still_working({self._task}, CLOSING_S)
