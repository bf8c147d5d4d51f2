"""Workflows looked at rather than run: listed, checked, drawn, explained, begun from a starter."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from midstream.app.assembly import Options, Parts, configured, parts, trusted
from midstream.cli.options import COMMON, JSON, takes, workflow_named
from midstream.cli.output import FAILED, FINISHED, answer, columns, note, say, say_object
from midstream.config.directories import BUILT_IN, WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import read_untrusted
from midstream.config.private_files import CHECK_NAME, shown_path, write_whole
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Json, python_file
from midstream.language.spec import Definition
from midstream.runtime.loader import SCRIPT_NAME
from midstream.safety.sanitize import sanitized
from midstream.system.own_process import complain


@contextmanager
def _looking(config: ConfigManager, options: Options) -> Iterator[Parts]:
    """Give what the settings lead to, for looking: no journal is opened, nothing is run."""
    made = parts(config, msgspec.structs.replace(options, journal="none"))
    try:
        yield made
    finally:
        asyncio.run(made.close())


# --- listed -------------------------------------------------------------------------------------


@click.command("workflows")
@takes(*COMMON)
def workflows(options: Options) -> int:
    """List the workflows."""
    return _listed(options, lambda made: made.library.workflows())


@click.command("roles")
@takes(*COMMON)
def roles(options: Options) -> int:
    """List the roles."""
    return _listed(
        options,
        lambda made: {name: role.description for name, role in made.library.roles().items()},
    )


@click.command("tools")
@takes(*COMMON)
def tools(options: Options) -> int:
    """List the tools agents may use."""
    return _listed(
        options, lambda made: {name: spec.description for name, spec in made.tools.items()}
    )


def _listed(options: Options, names: Callable[[Parts], dict[str, str]]) -> int:
    """Write names with their descriptions, one a line, or as one JSON object; return the exit code."""
    config = trusted(options)
    with _looking(config, options) as made:
        found = names(made)
    for notice in config.notices:
        complain(notice)
    width = max(map(len, found), default=0)
    firsts = {name: words.partition("\n")[0] for name, words in found.items()}
    answer(options, found, *(f"{name.ljust(width)}  {firsts[name]}" for name in sorted(found)))
    return FINISHED


# --- checked ------------------------------------------------------------------------------------


@click.command("validate")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Treat warnings as errors: exit code 1.")
@takes(*JSON)
def validate(options: Options, files: tuple[Path, ...], strict: bool) -> int:
    """Check workflow, role and settings files, or folders of them: every problem, with its place.

    Without FILES, those of this folder's .midstream/. A workflow's name will do, too, and FILE.py:NAME for
    one written in Python.
    """
    from midstream.language.problem import has_errors, strictly
    from midstream.runtime.validate import files_in, validate_files

    own = options.workspace / WORKSPACE_FOLDER
    if not files and not own.is_dir():
        raise click.UsageError("There is no .midstream/ here: name the FILES to check.")
    config = configured(options)
    has_unread_tools = config.is_untrusted and any((own / "tools").glob("*.py"))
    with _looking(config, options) as made:
        read_untrusted(config)
        paths, written = list[Path](), list[str]()
        for found in (_file_of(path, config) for path in files or (own,)):
            inside = [found] if isinstance(found, str) else _written_in(found, config)
            written += inside
            if not isinstance(found, str) and not (inside and not files_in(found)):
                paths.append(found)
        problems = validate_files(
            paths,
            roles=made.library.roles(),
            tools=made.tools,
            workflows={name: each.path for name, each in config.workflows().items()},
        )
        problems += tuple(
            each for name in dict.fromkeys(written) for each in made.library.problems(name)
        )
    if strict:
        problems = strictly(problems)
    if options.is_json:
        say_object(*problems)
    else:
        say(*map(str, problems or ["No problems."]))
    if problems and has_unread_tools:
        complain(_UNREAD_TOOLS)
    return FAILED if has_errors(problems) else FINISHED


_UNREAD_TOOLS: Final = (
    "Tools in .midstream/tools/ count as missing: they are code, which is not read until it is trusted. "
    "Look at it and trust it with: midstream trust."
)


def _written_in(folder: Path, config: ConfigManager) -> list[str]:
    """Return the names of the known workflows in Python in a folder; to check one is to import it."""
    places = [
        folder.absolute() / each for each in ("", "workflows", f"{WORKSPACE_FOLDER}/workflows")
    ]
    return [
        name
        for name, found in config.workflows().items()
        if found.path.suffix == ".py" and found.path.parent in places
    ]


def _file_of(path: Path, config: ConfigManager) -> Path | str:
    """Return the file a path names or, where it names none, the workflow of that name.

    One that is written in Python is a text: what the library finds it by.

    Raises:
        UserMistake: it names neither.
    """
    if path.name != SCRIPT_NAME and python_file(str(path)) is not None:
        return workflow_named(str(path))
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
        found = known[name].path
        return name if found.suffix == ".py" else found
    names = [*known, *(file.stem for file in own.parent.glob("*.json"))]
    raise UserMistake(
        f"There is no file {path.name!r}, and no workflow of that name.",
        hint=did_you_mean(name, names),
    )


# --- drawn, explained, described for editors ----------------------------------------------------


@click.command("graph")
@click.argument("name", metavar="WORKFLOW")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "mermaid", "dot", "svg"]),
    default="text",
    show_default=True,
    help="The language of the picture.",
)
@click.option(
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it to this file.",
)
@click.option("--width", type=click.IntRange(min=24), metavar="COLUMNS", help="How wide it may be.")
@takes(*COMMON)
def graph(options: Options, name: str, kind: str, file: Path | None, width: int | None) -> int:
    """Draw a workflow: its states, and where each leads and why."""
    from midstream.views.graph import graph_of
    from midstream.views.graph_painters import dot, drawing, mermaid, svg

    machine = graph_of(_definition(options, name))
    if options.is_json:
        text = json.dumps(msgspec.to_builtins(machine))
    elif kind == "text":
        text = drawing(machine, width=width or columns())
    elif kind == "svg":
        text = svg(machine, width=width or 90)
    else:
        text = {"mermaid": mermaid, "dot": dot}[kind](machine)
    text = sanitized(text)  # nobody may have trusted what stands in it
    if file is None:
        say(text)
    else:
        write_whole(file, f"{text}\n".encode())
        note(f"Drawn in {shown_path(file)}.")
    return FINISHED


@click.command("explain")
@click.argument("name", metavar="WORKFLOW")
@takes(*COMMON)
def explain(options: Options, name: str) -> int:
    """Say what a workflow does, what can stop it, and what your words do meanwhile."""
    from midstream.views.workflow_in_words import explained, explanation_text

    explanation = explained(_definition(options, name))
    answer(options, explanation, explanation_text(explanation, width=columns()))
    return FINISHED


def _definition(options: Options, name: str) -> Definition:
    """Return a workflow's definition, as its files say it now; nothing of it is run but a Python file."""
    config = configured(options)
    with _looking(config, options) as made:
        read_untrusted(config)
        definition = made.library.read(workflow_named(name))
    note(*config.notices)
    return definition


@click.command("schema")
@click.option("--roles", "what", flag_value="roles", help="The schema of role files.")
@click.option("--settings", "what", flag_value="settings", help="The schema of application.json.")
@click.option("--plugin", "what", flag_value="plugin", help="The schema of a plugin's manifest.")
def schema(what: str | None) -> int:
    """Write the JSON Schema of workflow files, by which editors complete and check them."""
    from midstream.views.file_schema import (
        plugin_schema,
        roles_schema,
        settings_schema,
        workflow_schema,
    )

    made: Callable[[], dict[str, Json]] = workflow_schema
    known = {"roles": roles_schema, "settings": settings_schema, "plugin": plugin_schema}
    made = known.get(what or "", made)
    say(json.dumps(made(), indent=2))
    return FINISHED


# --- a starter ----------------------------------------------------------------------------------

_STARTER = BUILT_IN / "starter"
_NAME = "haiku"
"""What the workflow is called where no name is given."""


@click.group("init", invoke_without_command=True)
@takes()
@click.pass_context
def init(context: click.Context, options: Options) -> int:
    """Write a starter to begin from: by itself, a workflow named haiku."""
    return 0 if context.invoked_subcommand else init_workflow(options, _NAME)


@init.command("workflow")
@click.argument("name", default=_NAME)
@takes()
def init_command(options: Options, name: str) -> int:
    """Write a commented workflow that runs offline, and its rehearsal, into .midstream/workflows/."""
    return init_workflow(options, name)


def _parts_of(name: str) -> dict[str, str]:
    """Return where each part of the starter goes, the workflow first."""
    return {
        "workflow.json": f"{name}.json",
        "offline.json": f"{name}/offline.json",
        "rehearsal.json": f"{name}/rehearsals/rain.json",
    }


def init_workflow(options: Options, name: str) -> int:
    """Write a starter of that name into the workspace; return the exit code.

    Raises:
        UserMistake: the name cannot name a file, or something has it already; nothing was written.
    """
    if name in ("", ".", "..") or not all(char.isalnum() or char in "-_" for char in name):
        raise UserMistake(
            f"{name!r} cannot name a workflow's file.", hint="Use letters, digits, - and _."
        )
    if (BUILT_IN / "workflows" / f"{name}.json").exists():
        raise UserMistake(
            f"{name} is built in, and a file of that name would take its place.",
            hint="Choose another name.",
        )
    folder = options.workspace / WORKSPACE_FOLDER / "workflows"
    for place in (folder.parent, folder):
        # Whoever wrote the workspace may have it lead to a person's own settings, say.
        if place.is_symlink():
            raise UserMistake(
                f"{shown_path(place)} is a symbolic link.", hint="Put a folder there instead of it."
            )
    files = {
        folder / path: (_STARTER / part).read_text(encoding="utf-8").replace("starter", name)
        for part, path in _parts_of(name).items()
    }
    # The folder of the parts counts as well: nothing is put beside what somebody wrote.
    for path in (folder / f"{name}.json", folder / name):
        if os.path.lexists(path):
            raise UserMistake(
                f"{shown_path(path)} is there already.",
                hint="Choose another name; nothing changed.",
            )
    for path, text in files.items():
        write_whole(path, text.encode())
    main, *others = (shown_path(path) for path in files)
    say(
        f"Written: {main}",
        *(f"         {other}" for other in others),
        "",
        "Next:",
        f"  midstream validate {main}",
        f"  midstream graph {name} --trust-workspace",
        f"  midstream run {name} rain --model offline --trust-workspace",
        "  midstream test --trust-workspace",
        "",
        "Then change it: the comments in it say what there is, and `midstream explain",
        f"{name}` says what it does. For completion in an editor: `midstream schema`.",
    )
    return FINISHED
