"""The commands in the text of a written command, run before it is sent.

They are a small workflow of their own, a state each: so each is judged, asked about, journaled, shown and
stopped as any command of an agent is. The file that names them has no say in that.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from midstream.app.input import NotSent
from midstream.config.commands import WrittenCommand
from midstream.core.background import TERMINAL
from midstream.core.events import StateTransition, ToolReturned
from midstream.core.mentions import mentioned
from midstream.core.run import Run
from midstream.language.command_text import commands_in, joined, may_run, parts
from midstream.language.names import START, STOP, Json
from midstream.language.spec import Catch, Definition, State, ToolSpec, Workflow
from midstream.runtime.storage import Store
from midstream.safety.sanitize import sanitized
from midstream.tools.tool_text import capped
from midstream.views.cells import one_line

MAX_COMMANDS: Final = 10
MAX_OUTPUT_CHARS: Final = 10_000
"""Characters of one command's output that are sent, its beginning and its end."""

_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NOTHING: Final = "(no output)"

RunIt: TypeAlias = Callable[[Definition, Json], Awaitable[Run]]
"""Runs a workflow with an input; returns the run once it has ended, or cannot end here."""


async def text_of(
    written: WrittenCommand,
    typed: str,
    *,
    tools: dict[str, ToolSpec],
    store: Store,
    run_it: RunIt,
) -> tuple[str, str]:
    """Return the text a written command sends, and what was run for it in a line ("" for nothing).

    Args:
        written: the command.
        typed: what stood behind its name.
        tools: what agents may use here.
        store: where the facts of the run are.
        run_it: runs the commands.

    Raises:
        NotSent: one of its commands may not be run, was refused, or was stopped.
    """
    found = parts(written.text, typed)
    commands = commands_in(found)
    if not commands:
        return joined(found, ()), ""
    _require(written, commands, tools)
    workflow = _workflow(written.name, len(commands))
    definition = Definition(workflow=workflow, roles={}, tools={TERMINAL: tools[TERMINAL]})
    run = await run_it(definition, list(commands))
    ended = _ended([envelope.event for envelope in await store.read(run.id)])
    name, last = written.name, ended[-1] if ended else None
    if run.status != "finished":
        if last is not None and last.outcome == "denied":
            refused = one_line(commands[len(ended) - 1])
            raise NotSent(f"/{name} sent nothing: {refused} was not run.", hint=last.result)
        raise NotSent(
            f"/{name} was stopped, and nothing was sent. {run.error}".rstrip(),
            hint="Send the line again to have its commands run anew.",
        )
    outputs = [_output(fact.result, is_whole=fact.outcome == "completed") for fact in ended]
    codes = [
        f"{one_line(command)} ({_words(fact.result)[0]})"
        for command, fact in zip(commands, ended, strict=True)
    ]
    return joined(found, outputs), f"/{name} ran: {', '.join(codes)}"


def _require(written: WrittenCommand, commands: Sequence[str], tools: dict[str, ToolSpec]) -> None:
    if TERMINAL not in tools:
        raise NotSent(
            f"/{written.name} runs commands, and none may be run here.",
            hint="Trust the workspace (/trust) first.",
        )
    if len(commands) > MAX_COMMANDS:
        raise NotSent(
            f"/{written.name} would run {len(commands)} commands; {MAX_COMMANDS} are the most.",
            hint="Put several into one, or into a script.",
        )
    for command in commands:
        if written.allowed_tools is not None and not may_run(command, written.allowed_tools):
            raise NotSent(
                f"/{written.name} sent nothing: its allowed-tools leave out {one_line(command)}.",
                hint="Add it there, such as Bash(git log:*); it is judged as ever all the same.",
            )


def _workflow(name: str, count: int) -> Workflow:
    """Return a workflow that runs the commands it is started with; one that fails ends none of it."""
    names = [START, *(f"command {number}" for number in range(2, count + 1)), STOP]
    states = [
        State(
            name=names[at],
            tool=TERMINAL,
            arguments={"command": f"${{input.{at}}}"},
            next=names[at + 1],
            catch=(Catch(to=names[at + 1], on=("tool",)),),
        )
        for at in range(count)
    ]
    # What it leaves are the commands: no output of one of them stands on the screen as a result.
    return Workflow(workflow_name=f"/{name}", states=(*states, State(name=STOP, input="input")))


def _ended(facts: Iterable[object]) -> list[ToolReturned]:
    """Return how each command ended at last, in order: one that did not happen may have been begun anew."""
    state, ended = START, dict[str, ToolReturned]()
    for fact in facts:
        if isinstance(fact, StateTransition):
            state = fact.target
        elif isinstance(fact, ToolReturned):
            ended[state] = fact
    return [*ended.values()]


def _words(result: str) -> tuple[str, list[str], str]:
    """Return how a command ended, what else a reader should hear of that, and its output."""
    head, _, output = result.partition("\n\n")
    first, *notes = head.replace("Exit code: ", "exit ").split("\n")
    # What an agent could do about it is no part of the text.
    notes = [note for note in notes if not note.startswith("[it ran with ")]
    return first.rstrip("."), notes, "" if output == _NOTHING else output


def _output(result: str, *, is_whole: bool) -> str:
    """Return what stands in the place of a command: its output, and how it failed."""
    first, notes, output = _words(result)
    told = notes if is_whole else [f"[{first}]", *notes]
    text = capped(sanitized(output).rstrip(), MAX_OUTPUT_CHARS)
    for at, _, path in reversed([*mentioned(text)]):
        if path.casefold().endswith(_PICTURES):
            text = f"{text[:at]}\\{text[at:]}"  # only a person's words show a picture
    return "\n".join(filter(None, (text, *told)))
