"""Commands about the language of workflows: graph, explain, schema, init."""

from pathlib import Path
from typing import Any

import click

from midstream.cli.options import common_options, options_of, plain_options
from midstream.cli.start_language import explain, graph, init_workflow, schema


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
@common_options
def graph_command(name: str, kind: str, file: Path | None, width: int | None, **common: Any) -> int:
    """Draw a workflow: its states, and where each leads and why."""
    return graph(options_of(common), name, kind=kind, file=file, width=width)


@click.command("explain")
@click.argument("name", metavar="WORKFLOW")
@common_options
def explain_command(name: str, **common: Any) -> int:
    """Say what a workflow does, what can stop it, and what your words do meanwhile."""
    return explain(options_of(common), name)


@click.command("schema")
@click.option("--roles", "what", flag_value="roles", help="The schema of role files.")
@click.option("--settings", "what", flag_value="settings", help="The schema of application.json.")
def schema_command(what: str | None) -> int:
    """Write the JSON Schema of workflow files, by which editors complete and check them."""
    return schema(what or "workflow")


STARTER = "haiku"
"""What the workflow is called where no name is given."""


@click.group("init", invoke_without_command=True)
@click.pass_context
def init_group(context: click.Context) -> int:
    """Write a starter to begin from: by itself, a workflow named haiku."""
    return 0 if context.invoked_subcommand else init_workflow(plain_options(), STARTER)


@init_group.command("workflow")
@click.argument("name", default=STARTER)
def init_workflow_command(name: str) -> int:
    """Write a commented workflow that runs offline, and its rehearsal, into .midstream/workflows/."""
    return init_workflow(plain_options(), name)


LANGUAGE_COMMANDS: tuple[click.Command, ...] = (
    graph_command,
    explain_command,
    schema_command,
    init_group,
)
