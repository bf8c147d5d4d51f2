"""`midstream doctor`: whether everything midstream needs is there, and what to do where it is not."""

import asyncio
import contextlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import click
import msgspec

from midstream._version import __version__
from midstream.app.assembly import Options, mcp_of, opened_store, sandbox_of, traces_go_to
from midstream.cli.options import COMMON, takes
from midstream.cli.output import FAILED, FINISHED, answer, say, say_object
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import open_settings
from midstream.config.trust import TrustStore
from midstream.core.costs import counted
from midstream.language.errors import JournalDamaged, MidstreamError, UserMistake
from midstream.runtime.storage import Pool, walk
from midstream.system.own_process import STDIN, STDOUT, is_terminal
from midstream.system.programs import found_program
from midstream.tui.styled_lines import Line, rows

CONNECT_S = 5.0
"""How long a model's server may take to take a connection."""

CHECK_S = 2.0
"""How long runs are read to see whether they are whole, the newest first."""

_HINT_AT = 14
_NAMED = 3
"""Damaged runs that are named, each with its first damaged event."""

_LEAST = 30
"""Columns the words need beside what they are about; with fewer they stand below it."""

Mark: TypeAlias = Literal["ok", "note", "bad"]
_MARKS: dict[Mark, str] = {"ok": "✓", "note": "·", "bad": "✗"}


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `bad` is what midstream cannot work without."""

    about: str
    mark: Mark
    words: str
    hint: str = ""


@click.command("doctor")
@click.option("--sandbox", is_flag=True, help="Measure the sandbox again and list every probe.")
@click.option("--attack", is_flag=True, help="Try in a scratch folder what attackers would.")
@click.option("--salvage", is_flag=True, help="Recover what is intact from a damaged journal.")
@takes(*COMMON)
def doctor(options: Options, sandbox: bool, attack: bool, salvage: bool) -> int:
    """Say whether everything midstream needs is there, and what to do where it is not."""
    if attack:
        return _attack(options)
    if salvage:
        return _salvage(options)
    config = open_settings(
        options.workspace, model=options.model, trusts_workspace=options.trusts_workspace
    )
    found = list(_sandbox(config, again=True, whole=True) if sandbox else _all(config, STDOUT))
    return _written(options, found, _in_all(found))


def _written(options: Options, found: Sequence[Finding], end: str) -> int:
    """Write how things stand, one line each; return the exit code: 1 where something is missing."""
    if options.is_json:
        say_object(*found)
    else:
        width = os.get_terminal_size(STDOUT).columns or 80 if is_terminal(STDOUT) else None
        say(*_told(found, end, width))
    return FAILED if any(each.mark == "bad" for each in found) else FINISHED


def _attack(options: Options) -> int:
    """Attack midstream in a scratch folder, say what held, and return the exit code: 1 at a breach."""
    from midstream.testing.attacks import Tried, battery, scratch_folder
    from midstream.tools.sandbox.sandbox import Sandbox

    tried: dict[str, list[Tried]] = {}
    with scratch_folder() as scratch:
        for each in battery(scratch / "at", sandbox=Sandbox(scratch / "state")):
            tried.setdefault(each.rule, []).append(each)
    found: list[Finding] = []
    for rule, every in tried.items():
        held = sum(not (each.breach or each.left_out) for each in every)
        breached = [each for each in every if each.breach]
        left_out = {each.left_out: None for each in every if each.left_out}
        words = f"{held} of {counted(len(every), 'try', 'tries')} held"
        words += f", {len(breached)} BREACHED" if breached else ""
        words += f", not tried: {'; '.join(left_out)}" if left_out else ""
        mark: Mark = "bad" if breached else "note" if left_out else "ok"
        found.append(Finding(rule, mark, words))
        found += [Finding(f"  {each.tries}", "bad", each.breach) for each in breached]
    count = sum(each.mark == "bad" for each in found)
    end = "Nothing that was tried here breached anything." if not count else _BREACHED
    return _written(options, found, end)


_BREACHED = "Lines with ✗ are breaches: please report them, with the version of midstream."


def _salvage(options: Options) -> int:
    """Get what is whole out of the journal and say what was lost, run by run; return the exit code."""
    from midstream.store.salvage import salvage

    config = open_settings(options.workspace)
    path = config.journal
    if config.database:
        raise UserMistake(
            f"The journal {config.journal_shown} is a database: midstream cannot salvage it.",
            hint="Restore it from a backup: docs/many_machines.md says how.",
        )
    done = salvage(path)
    if done.damaged is None:
        answer(options, done, f"Nothing is damaged in {path}: {counted(len(done.runs), 'run')}.")
        return FINISHED
    whole = [run for run in done.runs if run.facts == run.had]
    lines = [f"{counted(len(whole), 'run')} whole, {counted(done.mails, 'message')} to runs."]
    for run in done.runs:
        of = f" of {run.had}" if run.had else ""
        if run.renamed:
            lines.append(f"{run.id}: {run.facts} events; its name is lost, this one is made up.")
        elif run.facts == 0:
            lines.append(f"{run.id}: lost, all {run.had} events of it.")
        elif run.facts != run.had:
            lines.append(f"{run.id}: the first {run.facts}{of} events; what came after is lost.")
    lines.append(f"The new journal is {path}. The damaged one is kept: {done.damaged}")
    answer(options, done, *lines)
    return FINISHED


def examined(config: ConfigManager, *, width: int) -> str:
    """Return what `doctor` says, in lines of that width, in a console whose stdout is redirected.

    Blocks, for seconds where a model's server does not answer; must not run on a loop.
    """
    found = [*_all(config, STDIN)]
    return "\n".join(_told(found, _in_all(found), width))


def _told(found: Sequence[Finding], end: str, width: int | None) -> Iterator[str]:
    room = max(len(each.about) for each in found)
    if width is not None and width < room + _LEAST:
        for each in found:
            yield f"{_MARKS[each.mark]} {each.about.strip()}"
            yield from _rows(each.words, "  ", width)
            if each.hint:
                yield from _rows(each.hint, "  → ", width)
        yield from _rows(end, "", width)
        return
    for each in found:
        yield from _rows(each.words, f"{_MARKS[each.mark]} {each.about.ljust(room)}  ", width)
        if each.hint:
            yield from _rows(each.hint, f"  {' ' * min(room, _HINT_AT)}  → ", width)
    yield from _rows(end, "", width)


def _rows(words: str, mark: str, width: int | None) -> Iterator[str]:
    """Yield words behind their mark; where a terminal wraps them, each further row stands below them."""
    if width is None:
        yield f"{mark}{words}"
        return
    for row in rows(Line((("", words),), mark, rest=" " * len(mark)), width):
        yield "".join(part for _, part in row)


def _in_all(found: Sequence[Finding]) -> str:
    """Return how things stand in all, and what the marks mean."""
    bad = [each.about.strip() for each in found if each.mark == "bad"]
    if bad:
        return f"✗ is missing, and midstream needs it: {', '.join(bad)}."
    if any(each.mark == "note" for each in found):
        return "Everything midstream needs is there. Lines with a · are worth reading."
    return "Everything midstream needs is there."


def _all(config: ConfigManager, terminal: int) -> Iterator[Finding]:
    yield Finding(
        "midstream",
        "ok",
        f"{__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.release()} {platform.machine()}",
    )
    yield _terminal(terminal)
    yield _settings(config)
    yield _workspace(config)
    yield from _journal(config)
    yield from _models(config)
    yield from _local_models()
    yield from _programs(config.workspace)
    yield _code()
    yield _extras()
    yield from _sandbox(config, again=False, whole=False)
    yield from _checkers(config)
    yield from _servers(config)
    yield _external_agents(config.workspace)
    yield from _hooks(config)
    yield from _traces(config)


def _terminal(fd: int) -> Finding:
    if not is_terminal(fd):
        words = "none: plain lines in and out"
        return Finding("terminal", "note", words)
    size = os.get_terminal_size(fd)
    name = os.environ.get("TERM", "")
    encoding = sys.stdout.encoding or "?"
    words = f"{name or 'TERM is not set'}, {size.columns} x {size.lines}, {encoding}"
    if name in ("", "dumb"):
        hint = "It cannot place the cursor: midstream talks in plain lines."
        return Finding("terminal", "note", words, hint)
    if encoding.lower().replace("-", "") != "utf8":
        hint = "Set LANG to a UTF-8 locale, such as C.UTF-8."
        return Finding("terminal", "note", words, hint)
    return Finding("terminal", "ok", words)


def _settings(config: ConfigManager) -> Finding:
    where = str(config.user_file)
    if config.notices:
        count = len(config.notices)
        words = (
            f"{'a problem' if count == 1 else f'{count} problems; the first'}: {config.notices[0]}"
        )
        return Finding("settings", "note", words, "midstream config edit opens your own.")
    there = where if config.user_file.exists() else f"the defaults (there is no {where})"
    words = f"{there}; permission mode {config.permissions.mode}"
    return Finding("settings", "ok", words)


def _workspace(config: ConfigManager) -> Finding:
    try:
        status = TrustStore(config.state_dir).status(config.workspace)
    except MidstreamError as error:
        return Finding("workspace", "note", error.what, error.hint)
    words = {
        "no_files": "has no files of its own to trust",
        "trusted": f"is trusted as it stands ({counted(len(status.files), 'file')})",
        "changed": "has changed since you trusted it: none of it is used",
        "untrusted": "has files of its own that you have not trusted: none of them is used",
    }[status.kind]
    asks = status.kind in ("changed", "untrusted")
    return Finding(
        "workspace",
        "note" if asks else "ok",
        f"{config.workspace} {words}",
        "midstream trust shows them." if asks else "",
    )


def _journal(config: ConfigManager) -> Iterator[Finding]:
    """Yield how the journal is, and whether large contents can be kept where they are to be beside it."""
    trouble: MidstreamError | None = None

    async def look() -> tuple[int, bool, list[JournalDamaged]]:
        nonlocal trouble
        store = opened_store(config)
        damage: list[JournalDamaged] = []
        checked = 0
        try:
            if config.blobs and isinstance(store, Pool):
                try:
                    await store.try_blobs()
                except MidstreamError as error:
                    trouble = error
            until = time.monotonic() + CHECK_S
            async for run in walk(store):
                if time.monotonic() > until:
                    return checked, False, damage
                try:
                    await store.read(run.id)
                except JournalDamaged as error:
                    damage.append(error)
                checked += 1
            return checked, True, damage
        finally:
            await store.aclose()

    try:
        yield _found(config, *asyncio.run(look()))
    except MidstreamError as error:
        trouble = trouble or error
        yield Finding("journal", "bad", error.what, error.hint)
    if config.blobs and not config.database:
        words = f"{config.blobs} is not used: those of a journal in a file are beside it"
        yield Finding("contents", "note", words, "Unset MIDSTREAM_BLOBS, or name a database.")
    elif config.blobs and trouble is not None:
        yield Finding("contents", "bad", trouble.what, trouble.hint)
    elif config.blobs:
        words = f"the large ones of runs are in {config.blobs}, and can be written"
        yield Finding("contents", "ok", words)


def _found(
    config: ConfigManager, checked: int, is_all: bool, damage: Sequence[JournalDamaged]
) -> Finding:
    """Return what is to be said of a journal of which so many runs were read."""
    path = config.journal
    some = f"{'' if is_all else 'more than '}{counted(checked, 'run')}"
    words = f"keeps every run in {config.journal_shown}: {some}"
    hint = "Restore them from a backup: docs/many_machines.md says how."
    free = 0
    if not config.database:
        size = path.stat().st_size if path.exists() else 0
        free = shutil.disk_usage(path.parent).free
        words += f", {size / 1e6:.1f} MB, {free / 1e9:.1f} GB free"
        hint = "midstream doctor --salvage gets out what is whole. The damaged file is kept."
    if not is_all:
        words += f"; the {checked} newest runs were checked"
    if damage:
        where = ", ".join(f"{each.run} from event {each.seq} on" for each in damage[:_NAMED])
        more = f" and {len(damage) - _NAMED} more" if len(damage) > _NAMED else ""
        return Finding(
            "journal",
            "bad",
            f"{words}; {len(damage)} of {checked} damaged: {where}{more}",
            hint,
        )
    if config.database:
        return Finding("journal", "ok", words)
    if free < 50_000_000:
        return Finding("journal", "note", words, "Make room on that disk.")
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        hint = f"Others can read it: chmod 600 {path}"
        return Finding("journal", "note", f"{words}, mode {mode:o}", hint)
    return Finding("journal", "ok", words)


def _models(config: ConfigManager) -> Iterator[Finding]:
    from midstream.models.endpoints import base_of, is_offline, key_names, provider_of, require_key

    asked: dict[str, list[str]] = {}
    for level, name in config.models.items():
        asked.setdefault(name, []).append(level)
    lacking: dict[str, dict[str, list[str]]] = {}
    for name, levels in asked.items():
        about = f"model {'/'.join(levels)}"
        if is_offline(name):
            words = f"{name}: the built-in offline model answers, which is no LLM"
            yield Finding(about, "note", words, _CHOOSE)
            continue
        try:
            require_key(name, os.environ)
        except MidstreamError:
            lacking.setdefault(provider_of(name), {})[name] = levels
            continue
        try:
            address = base_of(provider_of(name), os.environ)
        except MidstreamError as error:
            yield Finding(about, "note", f"{name}: {error.what}", error.hint)
            continue
        yield _reached(about, name, address)
    for provider, names in lacking.items():
        keys = " or ".join(key_names(provider))
        yield Finding(
            f"model {'/'.join(level for levels in names.values() for level in levels)}",
            "note",
            f"{', '.join(names)}: cannot be used, {keys} is not set",
            f"Set it, or choose another model. {_CHOOSE}",
        )


_CHOOSE = "midstream config set models PROVIDER:MODEL keeps one, --model takes one this time."


def _local_models() -> Iterator[Finding]:
    """Yield the servers of models that answer on this machine, with the way to use them."""
    from midstream.models.localhost import servers_here
    from midstream.views.welcome_screen import way_to

    for each in asyncio.run(servers_here()):
        models = counted(len(each.models), "model")
        words = f"{each.program} answers on this machine, port {each.port}: {models}"
        yield Finding("local models", "ok", words, way_to(each))


def _reached(about: str, name: str, address: str) -> Finding:
    parts = urlsplit(address)
    if not parts.hostname:
        words = f"{name}: its provider's own address, not tried"
        return Finding(about, "note", words)
    port = parts.port or (443 if parts.scheme == "https" else 80)

    async def connect() -> None:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    began = time.monotonic()
    try:
        asyncio.run(connect())
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no connection within {CONNECT_S:g} s"
        words = f"{name}: {parts.hostname}:{port} is not reached ({why})"
        hint = "Check the network and the address in the environment."
        return Finding(about, "bad", words, hint)
    took = (time.monotonic() - began) * 1000
    words = f"{name}: {parts.hostname}:{port} answers in {took:.0f} ms; the key was not tried"
    return Finding(about, "ok", words)


_PROGRAMS = (
    ("git", "show and undo changes", False),
    ("rg", "search quickly; without it searching is slower", False),
    ("bwrap", "run commands in a sandbox; install the package bubblewrap", False),
    ("bash", "run commands", True),
)


def _programs(workspace: Path) -> Iterator[Finding]:
    for name, what_for, is_needed in _PROGRAMS:
        path = found_program(name, workspace)
        if path is None:
            mark: Mark = "bad" if is_needed else "note"
            yield Finding(name, mark, "not found", f"It is needed to {what_for}.")
            continue
        yield Finding(name, "ok", _version(path))


def _code() -> Finding:
    from midstream.tools.code_tools import INSTALL, missing_library

    if missing := missing_library():
        words = f"not installed ({missing}): explain_codebase and measure_code cannot work"
        return Finding("code map", "note", words, INSTALL)
    return Finding("code map", "ok", "explain_codebase and measure_code can work")


_EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "code": (("tree_sitter", "lizard"), "the code map"),
    "google": (("pydantic_ai", "google.genai"), "Google's models"),
    "mcp": (("mcp",), "MCP servers, and midstream mcp serve"),
    "pdf": (("pypdf",), "PDFs"),
    "postgres": (("psycopg",), "a journal that machines share"),
    "providers": (("pydantic_ai", "openai"), "models of other providers"),
    "s3": (("obstore",), "contents of a shared journal in S3"),
    "web": (("starlette", "uvicorn", "segno"), "midstream web and midstream serve"),
}
"""What each extra brings, as modules, and what it is for."""


def _extras() -> Finding:
    from midstream.app.onboarding import is_there

    missing = [name for name, (modules, _) in _EXTRAS.items() if not all(map(is_there, modules))]
    here = ", ".join(name for name in _EXTRAS if name not in missing) or "none"
    if not missing:
        return Finding("extras", "ok", f"{here}: all there are")
    without = "; ".join(f"{name} ({_EXTRAS[name][1]})" for name in missing)
    hint = f"Get what you need: pip install 'midstream[{','.join(missing)}]'"
    return Finding("extras", "ok", f"{here}; not installed: {without}", hint)


def _version(path: str) -> str:
    from midstream.system.supervisor import run_briefly

    try:
        ended, told = run_briefly(
            [path, "--version"], environment=os.environ, timeout_s=5, max_bytes=1_000_000
        )
    except OSError as error:
        return f"{path}: {error}"
    if ended.cause:
        return f"{path}: it does not say its version"
    first = told.decode("utf-8", "replace").strip().split("\n")[0]
    return f"{first or 'no version'} ({path})"


def _external_agents(workspace: Path) -> Finding:
    """Return which agents of other people are here. Starts none: some take seconds to say their version."""
    from midstream.agents.presets import PRESETS, found, version_of

    here = {name: found(preset, workspace, os.environ) for name, preset in PRESETS.items()}
    words = [
        f"{name} ({PRESETS[name].title} {version_of(path)}".rstrip() + ")"
        for name, path in here.items()
        if path is not None
    ]
    if not words:
        return Finding("other agents", "ok", f"none of {', '.join(here)} is installed")
    return Finding("other agents", "ok", f"{', '.join(words)}: may be agents of workflows")


def _sandbox(config: ConfigManager, *, again: bool, whole: bool) -> Iterator[Finding]:
    box = sandbox_of(config)
    measured = box.measure(again=again)
    trouble = box.unfit(config.workspace) if measured.level != "none" else ""
    mark: Mark = "ok" if measured.level == "full" and not trouble else "note"
    held = sum(probe.held for probe in measured.probes)
    words: str = measured.level
    if measured.probes:
        words += f": {held} of {len(measured.probes)} probes held"
    if measured.version:
        words += f", bwrap {measured.version}"
    hint = (
        f"Not in this folder: {trouble}. midstream asks for every command here."
        if trouble
        else measured.why
    )
    if measured.level == "none":
        hint = f"{hint} midstream asks for every command. docs/safety.md says how to install one.".strip()
    yield Finding("sandbox", mark, words, hint)
    if whole:
        for probe in measured.probes:
            kept: Mark = "ok" if probe.held else "bad"
            yield Finding(f"  {probe.name}", kept, probe.why or "held")


def _traces(config: ConfigManager) -> Iterator[Finding]:
    """Yield where traces go, and whether somebody is there; nothing where they go nowhere."""
    try:
        to = traces_go_to(config)
    except UserMistake as error:
        yield Finding("traces", "note", error.what, error.hint)
        return
    if to is not None:
        from midstream.telemetry.sending import without_password

        place = to.traces or to.metrics
        words = f"sent to {without_password(place)}, {'with' if to.content else 'without'} words"
        found = _reached("traces", words, place)
        # Runs go on without them.
        yield msgspec.structs.replace(found, mark="note") if found.mark == "bad" else found


def _hooks(config: ConfigManager) -> Iterator[Finding]:
    from midstream.config.hooks import hooks_of, listed

    hooks, problems = hooks_of(config)
    for problem in problems:
        yield Finding("hooks", "note", str(problem))
    if hooks and not problems:
        yield Finding("hooks", "ok", "; ".join(f"{event}: {what}" for event, what in listed(hooks)))


def _checkers(config: ConfigManager) -> Iterator[Finding]:
    """Yield whether what agents change is checked, where the workspace has checkers."""
    from midstream.tools.diagnostics import diagnostics_of

    diagnostics = diagnostics_of(config.diagnostics)
    if config.is_untrusted or diagnostics is None:
        return
    names = ", ".join(each.name for each in diagnostics.checkers(config.workspace))
    mode, hint = config.permissions.mode, ""
    if mode != "auto":
        hint = (
            f"In the permission mode {mode} they run only where a rule allows it; auto lets them."
        )
    elif sandbox_of(config).measure().level != "full":
        hint = "They run in a whole sandbox only, which there is none of here."
    if names:
        words = f"{names}: look at what agents change"
        yield Finding("checkers", "note" if hint else "ok", words, hint)


def _servers(config: ConfigManager) -> Iterator[Finding]:
    approvals, notices = mcp_of(config)
    for notice in notices:
        yield Finding("mcp", "note", notice)
    if approvals is not None and not notices:
        yield Finding("mcp", "ok", "midstream mcp lists the servers")
