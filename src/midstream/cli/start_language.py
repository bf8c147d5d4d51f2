"""Workflows looked at rather than run: drawn, explained, described for editors, begun from a starter."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from midstream.app.assembly import Options, Parts, configured, parts
from midstream.cli.headless.exit_codes import FINISHED
from midstream.config.directories import BUILT_IN, WORKSPACE_FOLDER
from midstream.config.open_settings import read_untrusted
from midstream.config.private_files import shown_path, write_whole
from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.language.spec import Definition
from midstream.safety.sanitize import sanitized
from midstream.system.own_process import STDOUT, is_terminal, write_error, write_out

_WIDEST = 100


def graph(options: Options, name: str, *, kind: str, file: Path | None, width: int | None) -> int:
    """Draw a workflow; return the exit code. `kind` is text, mermaid, dot or svg."""
    from midstream.views.graph import graph_of
    from midstream.views.graph_export import dot, mermaid
    from midstream.views.graph_painters import drawing, svg

    machine = graph_of(_loaded(options, name))
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
        _print(text)
    else:
        write_whole(file, f"{text}\n".encode())
        _say(f"Drawn in {shown_path(file)}.")
    return FINISHED


def explain(options: Options, name: str) -> int:
    """Say what a workflow does; return the exit code."""
    from midstream.views.workflow_in_words import explained, explanation_text

    explanation = explained(_loaded(options, name))
    if options.is_json:
        _print(json.dumps(msgspec.to_builtins(explanation)))
    else:
        _print(explanation_text(explanation, width=columns()))
    return FINISHED


def schema(what: str) -> int:
    """Write the JSON Schema of workflow files, `roles` or `settings`; return the exit code."""
    from midstream.views.file_schema import roles_schema, settings_schema, workflow_schema

    made: Callable[[], dict[str, Json]] = workflow_schema
    made = {"roles": roles_schema, "settings": settings_schema}.get(what, made)
    _print(json.dumps(made(), indent=2))
    return FINISHED


def columns() -> int:
    """Return how wide what is written for a person may be; 80 where it is not a terminal."""
    if not is_terminal(STDOUT):
        return 80
    return min(shutil.get_terminal_size().columns, _WIDEST)


def _loaded(options: Options, name: str) -> Definition:
    """Return a workflow's definition, as its files say it now; nothing of it is run."""
    config = configured(options)
    made = parts(config, msgspec.structs.replace(options, journal="none"))
    read_untrusted(config)
    try:
        definition = made.library.read(name)
    finally:
        asyncio.run(_close(made))
    for notice in config.notices:
        _say(notice)
    return definition


async def _close(made: Parts) -> None:
    await made.client.aclose()
    await made.store.aclose()


# --- a starter ----------------------------------------------------------------------------------------


_STARTER = BUILT_IN / "starter"


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
    _print(
        "\n".join(
            [
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
            ]
        )
    )
    return FINISHED


# --- small parts --------------------------------------------------------------------------------------


def _print(text: str) -> None:
    """Write a text to stdout, with its last line end."""
    write_out(f"{text}\n")


def _say(text: str) -> None:
    write_error(f"{text}\n")
