"""The parts list: the one place that knows every adapter and puts them together."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from midstream.config.manager import ConfigManager
from midstream.config.trust import Grant, TrustStatus, TrustStore, granted, session_grant
from midstream.core.errors import NotTrusted, UserMistake, WorldTrouble
from midstream.core.events import WorkflowOutput
from midstream.core.names import Json
from midstream.core.notices import Envelope
from midstream.core.spec import ToolSpec
from midstream.headless.codes import FAILED, FINISHED, PARKED
from midstream.offloop import in_thread
from midstream.ports import Face

if TYPE_CHECKING:
    from midstream.ai.api_client import AIAPIClient
    from midstream.ai_coder_console import AICoderConsole
    from midstream.core.problem import Problem
    from midstream.core.run import Run
    from midstream.engine.local import LocalEngine
    from midstream.tool.base import Tool
    from midstream.workflow.library import WorkflowLibrary

OFFLINE = "offline"
STDERR = 2


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What every way of starting takes from the command line."""

    workspace: Path
    model: str | None = None
    trusts_workspace: bool = False
    allowed: tuple[str, ...] = ()
    is_json: bool = False


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)


class ModelChoice:
    """Which models are used: the settings', or the offline model where none can be reached."""

    def __init__(self, client: "AIAPIClient", config: ConfigManager, *, is_offline: bool) -> None:
        self._client = client
        self._config = config
        self._is_offline = is_offline
        self.use(None)

    def describe(self) -> str:
        """Return the model of the base level, or the one that stands for all."""
        return self._client.describe()["base"]

    def use(self, name: str | None) -> None:
        """Use this model for every level; None: what the settings name, or offline."""
        self._client.use(OFFLINE if name is None and self._is_offline else name)

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return the model of each level, and the offline model."""
        return (*self._config.models.items(), ("no LLM", OFFLINE))


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is loaded once the prompt is on the screen."""

    engine: "LocalEngine"
    library: "WorkflowLibrary"
    client: "AIAPIClient"
    models: ModelChoice
    tools: dict[str, ToolSpec]
    notices: tuple[str, ...] = ()


def parts(config: ConfigManager, options: Options, *, is_paced: bool = False) -> Parts:
    """Return the loaded parts. Imports much; call it off the loop.

    Args:
        config: the settings.
        options: the command line.
        is_paced: the offline model streams its words as slowly as a model does.
    """
    from midstream.ai.api_client import AIAPIClient, is_configured
    from midstream.ai.offline import PIECES_PER_S, OfflineModel
    from midstream.engine.local import LocalEngine
    from midstream.store.memory import MemoryJournal
    from midstream.tool.manager import ToolManager
    from midstream.tool.validation import validate
    from midstream.workflow.effects import World
    from midstream.workflow.library import WorkflowLibrary

    own, problems = _own_tools(config)
    manager = ToolManager(own)
    tools = manager.specs()
    library = WorkflowLibrary(config, tools)
    clock = SystemClock()
    offline = OfflineModel(library.offline_part, pieces_per_s=PIECES_PER_S if is_paced else None)
    client = AIAPIClient(config.models, clock=clock, validator=validate, offline=offline)
    is_offline = not is_configured(_environ(), config.models)
    world = World(
        model=client,
        tools=manager,
        journal=MemoryJournal(),
        clock=clock,
        validate=validate,
        workspace=options.workspace,
    )
    notices = tuple(map(str, problems))
    if is_offline:
        notices = (*notices, NO_MODEL)
    return Parts(
        engine=LocalEngine(world),
        library=library,
        client=client,
        models=ModelChoice(client, config, is_offline=is_offline),
        tools=tools,
        notices=notices,
    )


NO_MODEL = (
    "No model is configured (no API key, no endpoint): the built-in offline model answers, which is "
    "no LLM. Set OPENAI_API_KEY or OPENAI_BASE_URL."
)


def _own_tools(config: ConfigManager) -> "tuple[tuple[Tool, ...], tuple[Problem, ...]]":
    """Return the tools of the user's folder and of a trusted workspace, and what is wrong there."""
    from midstream.tool.user import load_user_tools

    return load_user_tools(config.tool_files(), read=config.read)


def _environ() -> dict[str, str]:
    return dict(os.environ)


# --- settings and trust -------------------------------------------------------------------------


def configured(
    options: Options, *, mode: str | None = None, asks: Callable[[TrustStatus], bool] | None = None
) -> ConfigManager:
    """Return the settings, those of the workspace only if it is trusted.

    Args:
        options: the command line.
        mode: what `--mode` said.
        asks: asks a person whether to trust the workspace, None where nobody is there.
    """
    plain = ConfigManager(options.workspace, mode=mode, model=options.model)
    store = TrustStore(plain.state_dir)
    status = store.status(options.workspace)
    grant = _grant(store, status, options, asks)
    if grant is None:
        return plain
    return ConfigManager(options.workspace, grant=grant, mode=mode, model=options.model)


def _grant(
    store: TrustStore,
    status: TrustStatus,
    options: Options,
    asks: Callable[[TrustStatus], bool] | None,
) -> Grant | None:
    if status.kind == "no_files":
        return None
    given = granted(status)
    if given is not None:
        return given
    if options.trusts_workspace:
        return session_grant(status)
    if asks is not None and asks(status):
        return store.grant(status)
    return None


def require_trust(options: Options, config: ConfigManager) -> None:
    """Return unless the workspace has files of its own that nobody has trusted.

    Raises:
        NotTrusted: it has; the message names them.
    """
    if config.grant is not None:
        return
    status = TrustStore(config.state_dir).status(options.workspace)
    if status.kind == "no_files":
        return
    names = ", ".join(file.name for file in status.files[:5])
    raise NotTrusted(
        f"The workspace's .midstream/ is not trusted ({names}).",
        hint="Look at it, then say --trust-workspace, or start midstream here once and trust it.",
    )


# --- the console --------------------------------------------------------------------------------


def console(options: Options, *, mode: str | None) -> int:
    """Run the console in a terminal, or on plain lines where there is none; return the exit code."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not options.is_json
    config = configured(options, mode=mode, asks=ask_trust if is_terminal else None)
    return asyncio.run(_console(config, options, is_terminal=is_terminal))


async def _console(config: ConfigManager, options: Options, *, is_terminal: bool) -> int:
    from midstream.ai_coder_console import AICoderConsole
    from midstream.console.redirect import redirected

    face = _face(config, options, is_terminal=is_terminal)
    app = AICoderConsole(config, face, allowed=options.allowed)
    _stop_on_signals()
    loaded: list[Parts] = []
    try:
        with redirected(face):
            async with asyncio.TaskGroup() as group:
                loading = group.create_task(
                    _equip(app, config, options, loaded, is_paced=is_terminal)
                )
                await face.run(app)
                if not is_terminal and not app.is_leaving:
                    await app.settled()
                    for line in app.standing():
                        face.say(line)
                loading.cancel()
        return FAILED if not is_terminal and app.failed() else FINISHED
    finally:
        await app.close()
        await face.close()
        for each in loaded:
            await each.client.aclose()


async def _equip(
    app: "AICoderConsole",
    config: ConfigManager,
    options: Options,
    loaded: list[Parts],
    *,
    is_paced: bool,
) -> None:
    from midstream.ai_coder_console import Equipment

    made = await in_thread(lambda: parts(config, options, is_paced=is_paced))
    loaded.append(made)
    await app.equip(
        Equipment(engine=made.engine, library=made.library, models=made.models, tools=made.tools),
        notices=made.notices,
    )
    if made.models.describe() != OFFLINE:
        await made.client.warm_up()


def _face(config: ConfigManager, options: Options, *, is_terminal: bool) -> Face:
    if is_terminal:
        from midstream.console.interface import ConsoleInterface

        return ConsoleInterface(
            history_folder=config.state_dir,
            colour=not os.environ.get("NO_COLOR"),
            stdout=sys.stdout,
        )
    if options.is_json:
        from midstream.console.jsonlines import JsonFace

        return JsonFace()
    from midstream.console.plain import PlainFace

    return PlainFace()


def _stop_on_signals() -> None:
    """Let SIGTERM and a closed terminal end the console as Ctrl-D does: runs stop, nothing hangs."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    for name in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(name, main.cancel)


def ask_trust(status: TrustStatus) -> bool:
    """Ask at the terminal whether to use the workspace's own files; return the answer."""
    import click

    changed = {change.name: change.how for change in status.changes}
    click.echo(f"This workspace has its own .midstream/ ({status.workspace}):")
    for file in status.files:
        mark = f"  ({changed[file.name]} since you trusted it)" if file.name in changed else ""
        click.echo(f"  {file.name!r}  {file.size} bytes{mark}")
    for entry in status.left_out:
        click.echo(f"  left out: {entry!r}")
    click.echo("Workflows run their script.py, tools run their code, with your rights.")
    return click.confirm("Trust exactly these files?", default=False)


# --- without a console --------------------------------------------------------------------------


Work: TypeAlias = "Callable[[Parts, Callable[[str], None]], Awaitable[Run]]"
"""Does one headless piece of work; the function it is given hears complaints."""


def workflow(
    options: Options,
    name: str,
    *,
    input: str | None,
    answers: Sequence[str],
    settings: Sequence[str],
) -> int:
    """Run a workflow to its end; return the exit code."""
    from midstream.headless.run import play, variable

    variables = dict(map(variable, settings))

    async def work(made: Parts, complain: Callable[[str], None]) -> "Run":
        return await play(
            made.engine,
            made.library,
            name,
            input=input,
            answers=answers,
            variables=variables,
            allowed=options.allowed,
            complain=complain,
        )

    return _headless(options, work)


def chat(options: Options, prompt: str, *, role: str, answers: Sequence[str]) -> int:
    """Say one thing to a role and write the reply; return the exit code."""
    from midstream.headless.run import chat_once

    async def work(made: Parts, complain: Callable[[str], None]) -> "Run":
        return await chat_once(
            made.engine,
            made.library,
            made.tools,
            prompt,
            role=role,
            answers=answers,
            allowed=options.allowed,
            complain=complain,
        )

    return _headless(options, work)


def _headless(options: Options, work: Work) -> int:
    """Do one piece of work: its output on stdout, its progress on stderr; return the exit code.

    With `--json` the events stand on stdout instead, one a line.
    """
    from midstream.headless.run import as_text, result_of

    config = configured(options)
    require_trust(options, config)
    code, output = result_of(asyncio.run(_worked(config, options, work)))
    if output is not None and not options.is_json:
        sys.stdout.write(f"{as_text(output)}\n")
        sys.stdout.flush()
    return code


async def _worked(config: ConfigManager, options: Options, work: Work) -> "Run":
    from midstream.console.jsonlines import JsonFace
    from midstream.console.plain import PlainFace
    from midstream.console.redirect import redirected

    face = JsonFace() if options.is_json else PlainFace(stdout=STDERR)
    made = await in_thread(lambda: parts(config, options))
    is_done = False

    def show(envelope: Envelope) -> None:
        is_told_twice = _is_result(envelope) and not options.is_json
        if not (is_done or is_told_twice):
            face.show(envelope)

    made.engine.listen(show)
    for notice in (*config.notices, *made.notices):
        face.say(notice, kind="note")
    _stop_on_signals()
    try:
        with redirected(face):
            run = await work(made, lambda words: face.say(words, kind="error"))
    finally:
        # What is stopped now had its say: a chat that only waits for more, a question without answer.
        is_done = True
        await made.engine.close()
        await face.close()
        await made.client.aclose()
    return run


def _is_result(envelope: Envelope) -> bool:
    """Return whether an event is the workflow's result, which goes to stdout by itself."""
    return isinstance(envelope.event, WorkflowOutput) and envelope.event.kind == "result"


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
        UserMistake: there is no such workflow, or it asked a question no answer was given for.
        AuthorMistake: its files have problems, or a handler of it does.
        WorldTrouble: the run failed, such as for a model that cannot be reached.
        NotTrusted: the workspace has files of its own that nobody has trusted.
    """
    from midstream.headless.run import play, result_of

    options = Options(
        workspace=Path(workspace).resolve(), model=model, trusts_workspace=trusts_workspace
    )
    config = configured(options)
    require_trust(options, config)
    complaints: list[str] = []

    async def work() -> "Run":
        made = await in_thread(lambda: parts(config, options))
        try:
            return await play(
                made.engine,
                made.library,
                name,
                input=input,
                answers=answers,
                variables=variables or {},
                allowed=allowed,
                complain=complaints.append,
            )
        finally:
            await made.engine.close()
            await made.client.aclose()

    run = asyncio.run(work())
    code, output = result_of(run)
    if code == PARKED:
        raise UserMistake(" ".join(complaints))
    if code != FINISHED:
        raise WorldTrouble(f"The workflow {name} failed: {run.error}")
    return output


def listing(options: Options, what: str) -> int:
    """Write the workflows, roles or tools, one a line, or as one JSON object; return the exit code."""
    config = configured(options)
    require_trust(options, config)
    made = parts(config, options)
    if what == "tools":
        found = {name: spec.description for name, spec in made.tools.items()}
    elif what == "roles":
        found = {name: role.description for name, role in made.library.roles().items()}
    else:
        found = made.library.workflows()
    if options.is_json:
        sys.stdout.write(f"{json.dumps(found)}\n")
    else:
        width = max(map(len, found), default=0)
        for name, words in sorted(found.items()):
            first = words.splitlines()[0] if words else ""
            sys.stdout.write(f"{name.ljust(width)}  {first}\n")
    for notice in config.notices:
        sys.stderr.write(f"{notice}\n")
    return FINISHED


def validate(paths: Sequence[Path]) -> int:
    """Write every problem of the files; return the exit code: 1 if one keeps a file from its use."""
    from midstream.core.problem import has_errors
    from midstream.workflow.validate import validate_files

    options = Options(workspace=Path.cwd())
    config = configured(options)
    made = parts(config, options)
    problems = validate_files(paths, roles=made.library.roles(), tools=made.tools)
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    if not problems:
        sys.stdout.write("No problems.\n")
    return FAILED if has_errors(problems) else FINISHED
