"""A workflow or one chat turn without a person at the keyboard: output on stdout, an exit code.

Nobody is there to approve or to answer: tool calls that need approval are refused unless they were
allowed beforehand, and a question without an answer given beforehand parks the run. No answer is
ever invented.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from midstream.cli.headless.exit_codes import FAILED, FINISHED, PARKED
from midstream.cli.headless.variables import changed
from midstream.core.append_only import latest
from midstream.core.events import AgentResponded, QuestionAsked, RunFailed, WorkflowOutput
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.errors import (
    AuthorMistake,
    MidstreamError,
    OurBug,
    UserMistake,
    WorldTrouble,
)
from midstream.language.names import Json
from midstream.language.nearest import did_you_mean
from midstream.language.spec import ToolSpec, chat_definition
from midstream.runtime.ports import Engine, Library, Machine
from midstream.views.listing import HEADLESS
from midstream.views.run_status import way_on

ANSWER = "--answer"
"""The source of answers that were given beforehand."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said beforehand: answers, in the order asked, and tools that need no approval."""

    answers: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


async def play(
    engine: Engine,
    library: Library,
    name: str,
    given: Given,
    *,
    input: Json,
    variables: Mapping[str, Json] | None = None,
    settings: Sequence[str] = (),
) -> Run:
    """Return a workflow's run once it has ended, or waits for an answer that was not given.

    Args:
        engine: where the run lives.
        library: where the workflow is found.
        name: the workflow's name.
        given: what was said beforehand.
        input: what it is started with, None to leave it to the workflow's start condition.
        variables: values that override the workflow's `variables`.
        settings: the same as `name=value` texts.

    Raises:
        UserMistake: there is no such workflow, or a variable does not fit it.
        AuthorMistake: its files have problems.
    """
    definition, handlers = await library.load(name)
    asking = Asking(engine)
    machine = await engine.start(
        definition,
        handlers=handlers,
        input=input,
        variables=changed(definition.workflow.variables, variables or {}, settings),
        allowed=given.allowed,
        approvals="deny",
    )
    return await _answered(machine, given.answers, asking)


async def chat_once(
    engine: Engine,
    library: Library,
    tools: dict[str, ToolSpec],
    prompt: str,
    given: Given,
    *,
    role: str,
) -> Run:
    """Return a chat's run once the role has replied to one prompt, or the turn has failed."""
    roles = library.roles()
    if role not in roles:
        raise UserMistake(f"There is no role {role!r}.", hint=did_you_mean(role, roles))
    definition = chat_definition(role, roles[role], tools, library.guidance())
    machine = await engine.start(definition, allowed=given.allowed, approvals="deny")
    await machine.settled()
    asking = Asking(engine)
    await machine.say(prompt, source=HEADLESS)
    return await _answered(machine, given.answers, asking)


async def _answered(machine: Machine, answers: Sequence[str], asking: "Asking") -> Run:
    """Return the run once it has ended, waits for the next chat line, or for an answer not given."""
    left = list(answers)
    is_at_rest = False
    while left and not (machine.run.is_over or machine.is_closed):
        question = _wanted(machine.run)
        if question is not None:
            await machine.say(left.pop(0), question=question.id, source=ANSWER)
            is_at_rest = False
        elif is_at_rest:
            break
        else:
            is_at_rest = await asking.or_rest(machine)
    return await machine.settled()


class Asking:
    """Hears when a run asks something: branches beside the one that asks are not waited for, nor is
    the end of the time there is to answer.
    """

    def __init__(self, engine: Engine) -> None:
        self._asked = asyncio.Event()
        engine.listen(self._hear)

    async def or_rest(self, machine: Machine) -> bool:
        """Return once the run asks something (False), or only a person can move it on (True)."""
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(self._asked.wait())
            settled = group.create_task(machine.settled())
            await asyncio.wait((asked, settled), return_when=asyncio.FIRST_COMPLETED)
            is_at_rest = settled.done()
            asked.cancel()
            settled.cancel()
        self._asked.clear()
        return is_at_rest

    def _hear(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, QuestionAsked):
            self._asked.set()


# --- what became of it --------------------------------------------------------------------------


def result_of(run: Run) -> tuple[int, Json]:
    """Return the exit code of a run, and its output.

    A chat's output is its last reply: the arguments of its parsing tool where its role has one.
    """
    if run.is_over:
        return (FINISHED, run.output) if run.status == "finished" else (FAILED, None)
    if run.visit.phase != "waiting" or not run.visit.state:
        return PARKED, None
    if run.error or run.visit.last_response is None:
        return FAILED, None
    response = run.visit.last_response
    return FINISHED, response.calls[-1].arguments if response.calls else response.text


def unanswered(run: Run) -> str | None:
    """Return what a run that waits is told to be missing, None for one that lacks no answer."""
    question = None if run.is_over else _wanted(run)
    if question is None:
        return None
    # What was refused before another question got its answer may have been meant for that one.
    since = takewhile(lambda each: each.disposition != "answered", latest(run.inbox.lines))
    refused = [
        repr(each.text)
        for each in since
        if each.disposition == "rejected" and each.handling == "answer"
    ][::-1]
    wants = f"waits for an answer that fits (not {', '.join(refused)})"
    where = f" in the branch {question.branch}" if question.branch else ""
    choices = f" Choices: {', '.join(question.choices)}." if question.choices else ""
    return (
        f"Run {run.id} {wants if refused else 'waits for an answer that was not given'}{where}: "
        f"{question.text or 'its input'}{choices} Give it with --answer TEXT, once for each question."
    )


def left_words(run: Run) -> str:
    """Return how a run that was left goes on, "" for one that has ended or a chat that only waits."""
    is_chat = run.definition is not None and run.definition.kind == "chat"
    if run.is_over or run.definition is None or (is_chat and run.visit.phase == "waiting"):
        return ""
    return f"Run {run.id} {way_on(run, run.id, resume=f'`midstream resume {run.id}`')}"


def _wanted(run: Run) -> Question | None:
    """Return the question that holds the run up; a chat that waits for its next line has none."""
    return next((q for q in run.inbox.open_questions if is_wanted(run, q)), None)


def is_wanted(run: Run, question: Question) -> bool:
    """Return whether an answer given beforehand may be meant for a question.

    Words a branch waits for are: the others go on beside it, and a chat has no branches.
    """
    if question.kind == "input":
        return not run.visit.state or bool(question.branch)
    return question.kind == "question"


def is_result(envelope: Envelope) -> bool:
    """Return whether an event is a workflow's result, which stands on stdout by itself."""
    return isinstance(envelope.event, WorkflowOutput) and envelope.event.kind == "result"


def is_last_reply(envelope: Envelope) -> bool:
    """Return whether an event is what a chat's role says at last, which stands on stdout by itself."""
    event = envelope.event
    return isinstance(event, AgentResponded) and not (event.calls or event.problem)


class Failures:
    """Hears why a run failed."""

    def __init__(self) -> None:
        self.error: MidstreamError | None = None

    def hear(self, envelope: Envelope) -> None:
        """Hear an event."""
        event = envelope.event
        if isinstance(event, RunFailed):
            kinds = (AuthorMistake, UserMistake, WorldTrouble, OurBug)
            kind = next(kind for kind in kinds if kind.fault == event.fault)
            self.error = kind(f"The run failed: {event.error}", hint=event.hint)


def output_of(run: Run, failures: Failures) -> Json:
    """Return the output of a run that has finished.

    Raises:
        MidstreamError: it failed; which one says whose move it is.
        UserMistake: it waits for an answer.
    """
    if failures.error is not None:
        raise failures.error
    if (words := unanswered(run)) is not None:
        raise UserMistake(words)
    return run.output


def as_text(output: Json) -> str:
    """Return an output for stdout: text as it is, anything else as JSON."""
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    return json.dumps(output, indent=2, ensure_ascii=False)
