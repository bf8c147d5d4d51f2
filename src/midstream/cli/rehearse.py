"""Commands that test a workflow without a model: rehearse, test."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from midstream.cli.options import common_options, options_of
from midstream.cli.start_rehearse import disturb, record, record_run, rehearse, rehearse_all

if TYPE_CHECKING:
    from midstream.rehearsal.disturbances import Kind


@click.command("rehearse")
@click.argument("target", metavar="FILE|WORKFLOW", required=False)
@click.argument("input", required=False)
@click.option(
    "--record",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Run WORKFLOW for real, and write its rehearsal to this file.",
)
@click.option(
    "--from",
    "run",
    metavar="RUN",
    help="With --record: write the rehearsal of this kept run instead.",
)
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--accept", is_flag=True, help="Update the file where the result differs.")
@click.option("--interrupt-everywhere", is_flag=True, help="Interrupt it at every point.")
@click.option("--kill-everywhere", is_flag=True, help="Kill its process at every point.")
@click.option(
    "--pairs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="With either: also N random pairs of disturbances.",
)
@click.option("--point", metavar="POINT", help="Disturb it at one point, such as kill:17.")
@common_options
def rehearse_command(
    target: str | None,
    input: str | None,
    file: Path | None,
    run: str | None,
    answer: tuple[str, ...],
    settings: tuple[str, ...],
    accept: bool,
    interrupt_everywhere: bool,
    kill_everywhere: bool,
    pairs: int,
    point: str | None,
    **common: Any,
) -> int:
    """Play a rehearsal against the workflow of today, or record one. No model is asked."""
    options = options_of(common)
    disturbs = interrupt_everywhere or kill_everywhere or point is not None
    if (file is None or run is not None) and (answer or settings or input is not None):
        raise click.UsageError("An input, --answer and --set go with WORKFLOW --record FILE.")
    if (file is not None) + accept + disturbs > 1:
        raise click.UsageError("--record, --accept and the disturbances exclude each other.")
    if pairs and (point is not None or not disturbs):
        raise click.UsageError("--pairs goes with --interrupt-everywhere or --kill-everywhere.")
    if file is not None and run is not None:
        return record_run(options, run, file, name=target)
    if run is not None:
        raise click.UsageError("--from needs --record FILE.")
    if target is None:
        raise click.UsageError("Name a rehearsal's FILE, or a WORKFLOW with --record FILE.")
    if file is not None:
        return record(options, target, file, input=input, answers=answer, settings=settings)
    kinds: list[Kind] = []
    kinds += ["interrupt", "aside"] if interrupt_everywhere else []
    kinds += ["kill"] if kill_everywhere else []
    kinds += ["both"] if interrupt_everywhere and kill_everywhere else []
    if disturbs:
        return disturb(options, Path(target), kinds, pairs=pairs, point=point)
    return rehearse(options, Path(target), accept=accept)


@click.command("test")
@click.argument(
    "folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--all", "everywhere", is_flag=True, help="Include built-in workflows and your own.")
@common_options
def test_command(folder: Path | None, everywhere: bool, **common: Any) -> int:
    """Play all rehearsals of a workspace. No model is asked, no tool is called."""
    if folder is not None:
        common["workspace"] = folder
    return rehearse_all(options_of(common), everywhere=everywhere)


REHEARSE_COMMANDS: tuple[click.Command, ...] = (rehearse_command, test_command)
