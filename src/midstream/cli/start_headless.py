"""Starting what needs no console: one run, one chat turn, a listing, a check of files."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from midstream.app.assembly import Options, Parts, configured, parts, unknown_tool
from midstream.cli.headless.exit_codes import FAILED, FINISHED
from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import read_untrusted, require_trust
from midstream.config.private_files import CHECK_NAME
from midstream.core.events import AnswerRefused, RunRecovered, RunStarted
from midstream.core.notices import Envelope, JournalStalled
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.language.nearest import did_you_mean
from midstream.system.offloop import call_soon, in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDERR,
    OutputLost,
    complain,
    run_until_signalled,
    write_out,
)

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.tui.jsonlines import JsonFace
    from midstream.tui.plain_lines import PlainFace


Work: TypeAlias = "Callable[[Parts], Awaitable[Run]]"
"""Does one headless piece of work."""


def workflow(
    options: Options,
    name: str,
    *,
    input: str | None,
    answers: Sequence[str],
    settings: Sequence[str],
) -> int:
    """Run a workflow to its end; return the exit code. An empty input is none."""
    from midstream.cli.headless.run_headless import Given, is_result, play

    given = Given(answers=tuple(answers), allowed=options.allowed)
    said = input if input and input.strip() else None

    async def work(made: Parts) -> "Run":
        return await play(made.engine, made.library, name, given, input=said, settings=settings)

    return _headless(options, work, is_output=is_result)


def chat(options: Options, prompt: str, *, role: str, answers: Sequence[str]) -> int:
    """Say one thing to a role and write the reply; return the exit code."""
    from midstream.cli.headless.run_headless import Given, chat_once, is_last_reply

    if not prompt.strip():
        raise UserMistake("The text is missing.", hint='Write midstream chat "YOUR WORDS".')
    given = Given(answers=tuple(answers), allowed=options.allowed)

    async def work(made: Parts) -> "Run":
        return await chat_once(made.engine, made.library, made.tools, prompt, given, role=role)

    return _headless(options, work, is_output=is_last_reply)


def resume(
    options: Options,
    prefix: str,
    *,
    choice: Literal["ask", "old", "new"],
    answers: Sequence[str],
) -> int:
    """Go on here with a run nobody runs, to its end or its next question; return the exit code."""
    from midstream.cli.headless.resume_headless import go_on
    from midstream.cli.headless.run_headless import Asking, Given, is_last_reply, is_result
    from midstream.runtime.engine.open_run import found
    from midstream.runtime.engine.resume import letters_taken, take_up

    given = Given(answers=tuple(answers), allowed=options.allowed)
    is_its_output = is_result

    async def work(made: Parts) -> "Run":
        nonlocal is_its_output
        kept = await found(made.store, prefix)
        if kept.summary.kind == "chat":
            is_its_output = is_last_reply
        machine = await take_up(made.engine, made.library, kept.id, choice=choice)
        await letters_taken(machine, made.store)
        return await go_on(machine, given, Asking(made.engine))

    return _headless(options, work, is_output=lambda envelope: is_its_output(envelope))


def _headless(options: Options, work: Work, *, is_output: Callable[[Envelope], bool]) -> int:
    """Do one piece of work: its output on stdout, its progress on stderr; return the exit code.

    With `--json` the events stand on stdout instead, one a line.
    """
    from midstream.cli.headless.run_headless import as_text, result_of

    config = configured(options)
    require_trust(config)
    run = run_until_signalled(
        _worked(config, options, work, is_output), signals=(signal.SIGINT, *HANGUPS)
    )
    code, output = result_of(run)
    if code == FINISHED and output is not None and not options.is_json:
        write_out(f"{as_text(output)}\n", is_exact=True)
    return code


async def _worked(
    config: ConfigManager, options: Options, work: Work, is_output: Callable[[Envelope], bool]
) -> "Run":
    """Return the run as it stood when nothing more could be done for it, everything closed."""
    from midstream.app.commands.permission_commands import without_sandbox
    from midstream.cli.headless.resume_headless import unapproved
    from midstream.cli.headless.run_headless import unanswered
    from midstream.tui.jsonlines import line_face
    from midstream.tui.stdio_capture import redirected

    face = line_face(STDERR, is_json=options.is_json)
    told: set[str] = set()
    left: list[str] = []

    def tell(notices: Sequence[str]) -> None:
        """Say the notices not said before: reading workflows and roles brings more."""
        for notice in notices:
            if notice not in told:
                told.add(notice)
                face.say(notice, kind="note")

    def hear(envelope: Envelope) -> None:
        if isinstance(envelope.event, RunStarted):
            tell(config.notices)
        elif isinstance(envelope.event, RunRecovered):
            taken_up = made.engine.machine(envelope.run)
            if taken_up is not None:
                face.recall(taken_up.run)

    try:
        with redirected(face):
            async with _loaded(config, options, left) as made:
                tell((*config.notices, *made.notices))
                if made.permissions.mode == "auto":
                    await in_thread(partial(made.sandbox.unfit, options.workspace))
                    tell(list(filter(None, [without_sandbox(made.permissions)])))
                made.engine.listen(hear)
                try:
                    run = await _shown(made, work, face, options, is_output)
                finally:
                    tell(config.notices)
                if (words := unanswered(run) or unapproved(run)) is not None:
                    face.say(words, kind="error")
    finally:
        for words in left:
            face.say(words, kind="note")
        await face.close()
    if options.is_json and face.lost is not None:
        raise OutputLost(face.lost)
    return run


async def _shown(
    made: Parts,
    work: Work,
    face: "JsonFace | PlainFace",
    options: Options,
    is_output: Callable[[Envelope], bool],
) -> "Run":
    """Return the run of the work, its events shown. It ends when nobody can read them any more.

    Raises:
        OutputLost: stdout takes no more events.
        WorldTrouble: the journal was lost meanwhile; the runs are in files of their own.
    """
    from midstream.tui.jsonlines import JsonFace

    working = asyncio.ensure_future(work(made))
    lost: list[JournalStalled] = []

    def show(envelope: Envelope) -> None:
        if isinstance(envelope.event, JournalStalled) and envelope.event.is_lost:
            # Nobody is here to put it back, and what goes on now would be kept nowhere.
            lost.append(envelope.event)
            working.cancel()
        if options.is_json:
            face.show(envelope)
        elif not (lost or is_output(envelope)):
            face.show(envelope)
            if isinstance(envelope.event, AnswerRefused):
                face.say(f"The answer was refused: {envelope.event.reason}", kind="warning")

    if isinstance(face, JsonFace):
        face.when_lost(partial(call_soon, asyncio.get_running_loop(), working.cancel))
    made.engine.listen(show)
    try:
        return await working
    except asyncio.CancelledError:
        if lost:
            raise WorldTrouble(lost[0].error, hint=await _rescued(made)) from None
        if options.is_json and face.lost is not None:
            raise OutputLost(face.lost) from None
        raise


async def _rescued(made: Parts) -> str:
    """Write the runs that have not ended to files of their own; return what a person should hear."""
    from midstream.runtime.engine.run_file import exported, write_new

    words = []
    for machine in made.engine.machines():
        path = Path(tempfile.mkdtemp(prefix="midstream-")) / f"{machine.id}.jsonl"
        try:
            file = await exported(made.store, machine.id, made_by="midstream")
            await in_thread(partial(write_new, path, file.lines))
        except MidstreamError as error:
            words.append(f"Run {machine.id} is kept nowhere: {error}")
        else:
            words.append(f"Run {machine.id} is in {path} as far as it went.")
    return " ".join(words)


@contextlib.asynccontextmanager
async def _loaded(config: ConfigManager, options: Options, left: list[str]) -> AsyncIterator[Parts]:
    """Give the loaded parts; at the end runs are let go of and every connection is closed.

    What is to be said of runs that have not ended is added to `left`.

    Raises:
        UserMistake: a tool that is to be allowed does not exist.
        WorldTrouble: the journal cannot be opened, and nobody has said that none is wanted.
    """
    from midstream.cli.headless.run_headless import left_words

    if options.journal == "wanted":
        options = msgspec.structs.replace(options, journal="needed")
    made = await in_thread(lambda: parts(config, options))
    try:
        if (unknown := unknown_tool(options.allowed, made.tools)) is not None:
            raise unknown
        yield made
    finally:
        await made.engine.close()
        if made.store.is_lasting:
            left += [words for m in made.engine.machines() if (words := left_words(m.run))]
        await made.client.aclose()
        if made.mcp is not None:
            await made.mcp.close()


def run_workflow(
    name: str,
    input: Json = None,
    *,
    answers: Sequence[str] = (),
    variables: dict[str, Json] | None = None,
    allowed: Sequence[str] = (),
    model: str | None = None,
    workspace: str | Path = ".",
    trusts_workspace: bool = False,
) -> Json:
    """Return a workflow's output: the one door into midstream for code without an event loop.

    The run is kept in the journal like every other: `midstream runs` lists it, and one that was
    interrupted, or waits for an answer nobody gave, goes on with `midstream resume`.

    Args:
        name: a workflow built in, of the user, or of a trusted workspace.
        input: what it is started with.
        answers: answers to its questions, in the order they are asked.
        variables: values that override the workflow's `variables`.
        allowed: tools that need no approval; the others that need one are refused.
        model: a model such as `openai:gpt-5`, or `offline`; by default what the settings name.
        workspace: the folder to work in.
        trusts_workspace: whether the workspace's own `.midstream/` counts.

    Raises:
        UserMistake: there is no such workflow, it asked a question no answer was given for, or an
            event loop runs in this thread.
        AuthorMistake: its files have problems, or a handler of it does.
        WorldTrouble: the run failed, such as for a model that cannot be reached.
        NotTrusted: the workspace has files of its own that nobody has trusted.
    """
    from midstream.cli.headless.run_headless import Failures, Given, output_of, play

    options = Options(
        workspace=Path(workspace).resolve(),
        model=model,
        trusts_workspace=trusts_workspace,
        allowed=tuple(allowed),
    )
    if _is_on_a_loop():
        raise UserMistake(
            "run_workflow is for code without an event loop.",
            hint="On a loop of your own use WorkflowStateMachine: see docs/library.md.",
        )
    given = Given(answers=tuple(answers), allowed=options.allowed)
    failures = Failures()
    config = configured(options)
    require_trust(config)

    async def work() -> "Run":
        async with _loaded(config, options, []) as made:
            made.engine.listen(failures.hear)
            return await play(
                made.engine, made.library, name, given, input=input, variables=variables or {}
            )

    return output_of(asyncio.run(work()), failures)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def listing(options: Options, what: str) -> int:
    """Write the workflows, roles or tools, one a line, or as one JSON object; return the exit code."""
    config = configured(options)
    require_trust(config)
    made = parts(config, msgspec.structs.replace(options, journal="none"))
    if what == "tools":
        found = {name: spec.description for name, spec in made.tools.items()}
    elif what == "roles":
        found = {name: role.description for name, role in made.library.roles().items()}
    else:
        found = made.library.workflows()
    asyncio.run(made.store.aclose())
    for notice in config.notices:
        complain(notice)
    if options.is_json:
        write_out(f"{json.dumps(found)}\n")
    else:
        width = max(map(len, found), default=0)
        firsts = {name: words.partition("\n")[0] for name, words in found.items()}
        _print("\n".join(f"{name.ljust(width)}  {firsts[name]}" for name in sorted(found)))
    return FINISHED


def validate(options: Options, paths: Sequence[Path], *, is_strict: bool = False) -> int:
    """Write every problem of the files; return the exit code: 1 if one keeps a file from its use.

    With `is_strict` a warning does, too. What is no path may be the name of a workflow.

    Raises:
        UserMistake: it is neither.
    """
    from midstream.language.problem import has_errors, strictly
    from midstream.runtime.validate import validate_files

    config = configured(options)
    made = parts(config, msgspec.structs.replace(options, journal="none"))
    read_untrusted(config)
    problems = validate_files(
        [_file_of(path, config) for path in paths],
        roles=made.library.roles(),
        tools=made.tools,
        workflows={name: found.path for name, found in config.workflows().items()},
    )
    asyncio.run(made.store.aclose())
    if is_strict:
        problems = strictly(problems)
    if options.is_json:
        write_out("".join(f"{json.dumps(msgspec.to_builtins(p))}\n" for p in problems))
    else:
        _print("\n".join(map(str, problems)) or "No problems.")
    return FAILED if has_errors(problems) else FINISHED


def _file_of(path: Path, config: ConfigManager) -> Path:
    """Return the file a path names or, where it names none, the workflow of that name."""
    if os.path.lexists(path):
        return path
    if path.name != str(path):
        raise UserMistake(f"There is no file {str(path)!r}.", hint=CHECK_NAME)
    name = path.name.removesuffix(".json")
    own = config.workspace / WORKSPACE_FOLDER / "workflows" / f"{name}.json"
    if os.path.isfile(own):
        return own
    known = config.workflows()
    if name in known:
        return known[name].path
    names = [*known, *(file.stem for file in own.parent.glob("*.json"))]
    raise UserMistake(
        f"There is no file {path.name!r}, and no workflow of that name.",
        hint=did_you_mean(name, names),
    )


def _print(text: str) -> None:
    """Write a text to stdout, with its last line end."""
    write_out(f"{text}\n")
