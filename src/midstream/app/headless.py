"""Work without a person at the keyboard: a workflow, one chat turn, a run taken up again.

Nobody is there to approve or to answer: tool calls that need approval are refused unless they were
allowed beforehand, and a question without an answer given beforehand parks the run. No answer is
ever invented. Click is not imported: the library's door uses this, too.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NoReturn

import msgspec

from midstream.app.assembly import Options, Parts, parts, unknown_tool
from midstream.app.commands.table import words_of_commands
from midstream.app.embedded_commands import text_of
from midstream.app.input import NotSent
from midstream.config.commands import written_commands
from midstream.config.manager import ConfigManager
from midstream.core import events as e
from midstream.core.append_only import latest
from midstream.core.call_notes import shown_of
from midstream.core.question import Decision, Question
from midstream.core.routing import answered_next, branch_at, is_command
from midstream.core.run import Run
from midstream.language.errors import UserMistake, WorldTrouble, did_you_mean
from midstream.language.lint_schema import check_schema
from midstream.language.names import Json
from midstream.language.plan import answering
from midstream.language.problem import as_text
from midstream.language.shape import read_file
from midstream.language.spec import Definition, ToolSpec
from midstream.runtime.engine.hand_over import hand_over, pool_of
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.ports import Machine
from midstream.runtime.storage import Placement
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.safety.capability import SHOWN, quoted
from midstream.safety.rules import capability_of, covers, is_told_by_name
from midstream.system.offloop import cancel_all, in_thread
from midstream.views.listing import HEADLESS

ANSWER = "--answer"
"""The source of answers that were given beforehand."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said beforehand: answers, in the order asked, and tools that need no approval."""

    answers: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


async def play(
    engine: LocalEngine,
    library: WorkflowLibrary,
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
    machine = await engine.start(
        definition,
        handlers=handlers,
        input=input,
        variables=_changed(definition.workflow.variables, variables or {}, settings),
        allowed=given.allowed,
        approvals="deny",
    )
    return await go_on(machine, given)


async def hand_over_named(
    made: Parts,
    name: str,
    given: Given,
    placement: Placement,
    *,
    input: Json,
    settings: Sequence[str] = (),
    id: str | None = None,
) -> str:
    """Return the id of a workflow's run that has begun and that workers go on with.

    What it asks, and the approvals it needs, wait until a person gives them, from anywhere. The arguments
    are those of `play`.

    Raises:
        UserMistake: the journal is none that workers share, or as of `play`.
        AuthorMistake: its files have problems.
    """
    pool_of(made.store)
    definition, _ = await made.library.load(name)
    changed = _changed(definition.workflow.variables, {}, settings)
    return await hand_over(
        *(made.engine, definition, placement),
        id=id,
        input=input,
        variables=changed,
        allowed=given.allowed,
    )


async def chat_once(
    engine: LocalEngine,
    library: WorkflowLibrary,
    tools: dict[str, ToolSpec],
    prompt: str,
    given: Given,
    *,
    role: str,
    schema: dict[str, Json] | None = None,
) -> Run:
    """Return a chat's run once the role has replied to one prompt, or the turn has failed.

    With a `schema` the reply is a value that fits it.
    """
    definition = library.chat(role, tools)
    if schema is not None:
        definition = answering(definition, schema)
    machine = await engine.start(definition, allowed=given.allowed, approvals="deny")
    await machine.settled()
    await machine.say(prompt, source=HEADLESS)
    return await go_on(machine, given)


def schema_in(text: str, file: str) -> dict[str, Json]:
    """Return the JSON Schema a text is.

    Raises:
        UserMistake: it is none; every problem is named with its place.
    """
    root, report = read_file(text, file)
    if root is not None and root.kind == "object":
        check_schema(root, report)
    elif root is not None:
        report.error(root, 'expected an object, such as {"type": "object"}.')
    problems = report.problems
    if root is None or any(problem.severity == "error" for problem in problems):
        raise UserMistake(
            f"--output-schema is no JSON Schema that can be used:\n{as_text(problems)}",
            hint='A schema such as {"type": "object", "properties": {"name": {"type": "string"}}}.',
        )
    return dict(root.value)


async def written(made: Parts, words: str, given: Given) -> tuple[str, str] | None:
    """Return the text of a `/command` that a person wrote, and the role it names; None: there is none.

    What it runs is run as `given` allows: nobody is there to be asked.

    Raises:
        WorldTrouble: what it runs may not be run here.
    """
    name, _, typed = words[1:].partition(" ")
    known = await in_thread(partial(written_commands, made.config, words_of_commands()))
    command = known.get(name.casefold()) if words.startswith("/") else None
    if command is None or name.casefold() in words_of_commands():
        return None

    async def run_it(definition: Definition, input: Json) -> Run:
        machine = await made.engine.start(
            definition, input=input, allowed=given.allowed, approvals="deny"
        )
        run = await machine.settled()
        if not run.is_over:
            await machine.stop()
        return machine.run

    try:
        text, _ = await text_of(
            command, typed, tools=made.tools, store=made.engine.store, run_it=run_it
        )
    except NotSent as error:
        raise WorldTrouble(error.what, hint=error.hint) from error
    return text, command.role


async def chat_words(made: Parts, prompt: str, given: Given) -> tuple[str, str]:
    """Return what a prompt says to a chat, as a line of the console would; and the role that is named.

    Raises:
        UserMistake: it is a command of the console, or none.
        WorldTrouble: as in `written`.
    """
    if not is_command(prompt):
        return prompt.removeprefix("/") if prompt.startswith("//") else prompt, ""
    found = await written(made, prompt, given)
    if found is not None:
        return found
    name = prompt[1:].partition(" ")[0].strip()
    is_ours = name.casefold() in words_of_commands()
    what = "a command of the console, and midstream chat says one thing to a role"
    raise UserMistake(
        f"/{name} is {what}." if is_ours else f"There is no command /{name} that you wrote.",
        hint=f"{'Type it in the console (midstream). ' * is_ours}//TEXT says what begins with a slash.",
    )


async def go_on(machine: Machine, given: Given) -> Run:
    """Return the run once it has ended, or waits for what was not given beforehand.

    Tool calls of one that is taken up wait for approval as they did where it began; those that are
    allowed now, by what they do or by the tool's name, are granted. A run begun here is refused what it
    may not do and waits for no approval.
    """
    answers = list(given.answers)
    is_at_rest = False
    while not (machine.run.is_over or machine.is_closed):
        run = machine.run
        approval = next(
            (q for q in run.inbox.open_questions if _is_allowed(run, q, given.allowed)), None
        )
        asked = answered_next(run)
        if approval is not None:
            await machine.approve(approval.id, Decision(granted=True, for_run=True))
        elif asked is not None and answers:
            await machine.say(answers.pop(0), question=asked.id, source=ANSWER)
        elif is_at_rest:
            return run
        else:
            is_at_rest = await _is_at_rest(machine)
            continue
        is_at_rest = False
    return await machine.settled()


async def _is_at_rest(machine: Machine) -> bool:
    """Return once the run asks something (False), or only a person can move it on (True).

    Branches beside the one that asks are not waited for, nor is the end of the time there is to answer.
    """

    async def asked(since: int) -> None:
        async with contextlib.aclosing(machine.events(since)) as events:
            async for envelope in events:
                if isinstance(envelope.event, e.QuestionAsked):
                    return
        await machine.settled()

    asking = asyncio.create_task(asked(machine.run.seq))
    settled = asyncio.create_task(machine.settled())
    try:
        done, _ = await asyncio.wait((asking, settled), return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
        return settled in done
    finally:
        await cancel_all(asking, settled)


# --- the parts ----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def loaded(config: ConfigManager, options: Options) -> AsyncIterator[Parts]:
    """Give the loaded parts; at the end runs are let go of and every connection is closed.

    Raises:
        UserMistake: a tool that is to be allowed does not exist.
        WorldTrouble: the journal is needed and cannot be opened.
    """
    made = await in_thread(lambda: parts(config, options))
    try:
        if (unknown := unknown_tool(options.allowed, made.tools)) is not None:
            raise unknown
        yield made
    finally:
        await made.close()


# --- what a run waits for ------------------------------------------------------------------------


def unanswered(run: Run) -> str | None:
    """Return what a run that waits is told to be missing, None for one that lacks no answer."""
    question = None if run.is_over else answered_next(run)
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
    text = question.text or "its input"
    behind = "\n" if "\n" in text else " "
    return (
        f"Run {run.id} {wants if refused else 'waits for an answer that was not given'}{where}: "
        f"{text}{choices}{behind}Give it with --answer TEXT, once for each question."
    )


def open_plan(run: Run) -> str | None:
    """Return the plan a run has proposed and nobody has decided on, None where there is none."""
    plans = (q for q in run.inbox.open_questions if q.about == "plan")
    return next((shown_of(question) for question in plans), None)


def unapproved(run: Run) -> str | None:
    """Return what a run that waits for an approval is told to be missing, None if it does not."""
    if run.is_over:
        return None
    if open_plan(run) is not None:
        return (
            f"Run {run.id} proposes a plan: approve, change or reject it in the console "
            f"(midstream, then /resume {run.id})."
        )
    tools: dict[str, None] = {}
    needed: dict[str, None] = {}
    for question in run.inbox.open_questions:
        if name := _tool_of(run, question):
            tools[name] = None
            needed |= dict.fromkeys(_asked(question) or (name,))
    if not tools:
        return None
    names = " and ".join(tools)
    allowing = " ".join(f"--allow {quoted((each,))}" for each in needed)
    return (
        f"Run {run.id} waits for your approval of {names}. Decide in the console "
        f"(midstream, then /resume), or let it run: midstream resume {run.id} {allowing}"
    )


def _asked(question: Question) -> list[str]:
    return [ask for ask in question.asks if not ask.startswith(SHOWN)]


def _is_allowed(run: Run, question: Question, allowed: Sequence[str]) -> bool:
    """Return whether an approval is asked for that was given beforehand."""
    name = _tool_of(run, question)
    if not name or question.about == "plan":
        return False  # whoever allowed the tool beforehand has not seen the plan
    return all(
        _covers(allowed, ask) or (name in allowed and is_told_by_name(ask))
        for ask in _asked(question) or (name,)
    )


def _covers(allowed: Sequence[str], ask: str) -> bool:
    capability = capability_of(ask)
    return ask in allowed if capability is None else covers(allowed, capability)


def _tool_of(run: Run, question: Question) -> str:
    """Return the tool a question asks to approve, "" for any other question."""
    asking = branch_at(run, question.branch)
    if question.kind != "approval" or asking is None or asking.visit.turn is None:
        return ""
    calls = (each.call for each in asking.visit.turn.calls if each.call.id == question.call_id)
    return next((call.name for call in calls), "")


# --- a workflow's variables, changed from outside: by name, and only to a value of the same kind ---


def _changed(
    own: Mapping[str, Json], values: Mapping[str, Json], settings: Sequence[str]
) -> dict[str, Json]:
    """Return the variables to override.

    Args:
        own: the workflow's variables, with their values.
        values: new values by name.
        settings: `name=value` texts. A value is read as JSON, or as it is where the workflow's own
            value is text.

    Raises:
        UserMistake: a text sets nothing, there is no such variable, or its value is of another kind
            (null takes any).
    """
    found = {**values, **dict(_set(text, own) for text in settings)}
    for name, value in found.items():
        _require(name, own)
        wanted = _kind(own[name])
        if wanted not in ("anything", _kind(value)):
            raise UserMistake(
                f"The variable {name} takes {wanted}, not {value!r}.",
                hint=f"The workflow's own value is {json.dumps(own[name])}.",
            )
    return found


def _set(text: str, own: Mapping[str, Json]) -> tuple[str, Json]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UserMistake(f"--set {text!r} sets nothing.", hint="Write --set name=value.")
    _require(name, own)
    if isinstance(own[name], str):
        return name, value
    try:
        return name, json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return name, value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _require(name: str, own: Mapping[str, Json]) -> None:
    if name not in own:
        raise UserMistake(f"There is no variable {name!r}.", hint=did_you_mean(name, own))


def _kind(value: Json) -> str:
    match value:
        case None:
            return "anything"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
