"""Commands about runs of any process: list, show, follow, send, resume, stop."""

from typing import Any, Literal

import click

from midstream.cli.options import common_options, options_of, run_options
from midstream.cli.start_headless import resume
from midstream.cli.start_runs import events, listing, send, show, show_graph, stop
from midstream.language.names import Policy


@click.command("runs")
@click.option("--all", "everywhere", is_flag=True, help="List the runs of every folder.")
@run_options
def runs_command(everywhere: bool, **common: Any) -> int:
    """List the runs of this folder, the newest first."""
    return listing(options_of(common), everywhere=everywhere)


@click.command("show")
@click.argument("run", metavar="RUN")
@click.option("--graph", "drawn", is_flag=True, help="Draw where it was, how often and how long.")
@run_options
def show_command(run: str, drawn: bool, **common: Any) -> int:
    """Show how a run stands: state, questions, cost, waiting words, its last events."""
    return show_graph(options_of(common), run) if drawn else show(options_of(common), run)


@click.command("events")
@click.argument("run", metavar="RUN")
@click.option("--follow", is_flag=True, help="Wait for new events until the run has ended.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEQ",
    help="Only events after this number.",
)
@run_options
def events_command(run: str, follow: bool, after: int, **common: Any) -> int:
    """Write what happened in a run, one event a line."""
    return events(options_of(common), run, after=after, follow=follow)


@click.command("send")
@click.argument("run", metavar="RUN")
@click.argument("text", metavar="TEXT")
@click.option("--question", metavar="ID", help="The question it answers: its id or number.")
@click.option("--key", metavar="KEY", help="TEXT sent twice with the same key is delivered once.")
@click.option(
    "--interrupt", "policy", flag_value="interrupt", help="Deliver TEXT by halting the turn."
)
@click.option("--steer", "policy", flag_value="steer", help="Deliver TEXT with the next request.")
@click.option("--queue", "policy", flag_value="queue", help="Deliver TEXT when the state is done.")
@click.option(
    "--wait", "waits", is_flag=True, help="Wait until the run has accepted or refused it."
)
@run_options
def send_command(
    run: str,
    text: str,
    question: str | None,
    key: str | None,
    policy: Policy | None,
    waits: bool,
    **common: Any,
) -> int:
    """Tell a run something: the answer to its only question, or unasked words. `-` reads stdin."""
    return send(
        options_of(common),
        run,
        text,
        question=question,
        key=key,
        policy=policy,
        waits=waits,
    )


@click.command("resume")
@click.argument("run", metavar="RUN")
@click.option(
    "--old", "choice", flag_value="old", help="Use the copy of the workflow kept with the run."
)
@click.option("--new", "choice", flag_value="new", help="Use the workflow as it is now.")
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@common_options
def resume_command(
    run: str, choice: Literal["old", "new"] | None, answer: tuple[str, ...], **common: Any
) -> int:
    """Go on with a run that is not running: its output on stdout, progress on stderr."""
    return resume(options_of(common), run, choice=choice or "ask", answers=answer)


@click.command("stop")
@click.argument("run", metavar="RUN")
@run_options
def stop_command(run: str, **common: Any) -> int:
    """End a run, whoever runs it."""
    return stop(options_of(common), run)


RUN_COMMANDS: tuple[click.Command, ...] = (
    runs_command,
    show_command,
    events_command,
    send_command,
    resume_command,
    stop_command,
)
