"""Commands about a run's past: fork, undo, redo, replay, export, import."""

from pathlib import Path

import click

from midstream.cli.options import json_option, plain_options
from midstream.cli.start_travel import (
    export_run,
    fork_run,
    import_run,
    redo_run,
    replay_run,
    undo_run,
)


@click.command("fork")
@click.argument("run")
@click.option(
    "--at", type=int, metavar="SEQ", help="The last event to keep; by default the last possible."
)
@click.option("--put-back", is_flag=True, help="Put files back as they were then.")
@json_option
def fork(run: str, at: int | None, put_back: bool, as_json: bool) -> int:
    """Make a new run of a run's past, and say what was done after that."""
    return fork_run(plain_options(as_json=as_json), run, at=at, puts_back=put_back)


@click.command("undo")
@click.argument("run")
@click.option(
    "--put-back/--keep-files",
    default=True,
    help="Put files back as they were then (the default), or leave them.",
)
@json_option
def undo(run: str, put_back: bool, as_json: bool) -> int:
    """Go back to before the last turn, its file changes included.

    The run ends, and its fork is there to go on with. `midstream redo` of the fork goes forward.
    """
    return undo_run(plain_options(as_json=as_json), run, puts_back=put_back)


@click.command("redo")
@click.argument("run")
@json_option
def redo(run: str, as_json: bool) -> int:
    """Go forward again from a run that undo made: its words and its files as they were."""
    return redo_run(plain_options(as_json=as_json), run)


@click.command("replay")
@click.argument("run")
@json_option
def replay(run: str, as_json: bool) -> int:
    """Fold a run's facts again and compare; no model and no tool is called."""
    return replay_run(plain_options(as_json=as_json), run)


@click.command("export")
@click.argument("run")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--with-files", is_flag=True, help="Include the files as they were before the run.")
def export(run: str, file: Path | None, with_files: bool) -> int:
    """Write a run as one readable file, such as for a bug report; by default to stdout."""
    return export_run(plain_options(), run, file, with_files=with_files)


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_command(file: Path, as_json: bool) -> int:
    """Keep the run of an exported file. It never goes on by itself."""
    return import_run(plain_options(as_json=as_json), file)


TRAVEL_COMMANDS: tuple[click.Command, ...] = (fork, undo, redo, replay, export, import_command)
