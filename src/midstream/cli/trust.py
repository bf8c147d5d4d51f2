"""Trusting a workspace: looking at what it would switch on, saying yes, taking that back."""

import os
from pathlib import Path

import click

from midstream.app.assembly import Options
from midstream.cli.options import RUNS, takes
from midstream.cli.output import FAILED, FINISHED, NOT_TRUSTED, say
from midstream.config.directories import user_state_dir
from midstream.config.trust import TrustStatus, TrustStore, session_grant
from midstream.config.trust_preview import shown_name, told_files
from midstream.core.costs import counted
from midstream.language.errors import MidstreamError
from midstream.system.own_process import STDIN, STDOUT, is_terminal
from midstream.tui.styled_lines import Line, rows
from midstream.tui.terminal_questions import asked

_KEYS = "t trust exactly these files · l look at them · n not now"


def ask_trust(status: TrustStatus, store: TrustStore, *, whose: str = "") -> bool:
    """Show at the terminal what the workspace's own files are and would do; return the answer.

    `whose`: they are those of something else, such as a plugin.

    What was typed ahead or pasted is no answer to it.
    """
    _show(status, store, whose)
    while True:
        key = asked(f"{_KEYS}\n[n] › ").strip().casefold()
        match key[:1]:
            case "t":
                say("Trusted, as long as none of these files changes.")
                return True
            case "l":
                _look(status)
            case "" | "n" | "q":
                say("Not trusted: none of it is used, and nothing is changed here.")
                return False
            case _:
                say(f"{key[:20]!r} is not one of these keys: nothing was decided.")


def _show(status: TrustStatus, store: TrustStore, whose: str) -> None:
    what = ".midstream/" if status.acts else "words for agents"
    what = f"This workspace has its own {what}" if not whose else f"These are the files of {whose}"
    say(f"{what} ({status.workspace}):")
    for mark, text in told_files(status, store):
        _say(text, mark)


def _look(status: TrustStatus) -> None:
    given = session_grant(status)
    for file in status.files:
        say(f"── {shown_name(file.name)}")
        try:
            text = given.read(file.name).decode("utf-8", "replace")
        except MidstreamError as error:
            _say(error.what, "  ")
            continue
        for number, line in enumerate(text.split("\n"), 1):
            _say(line, f"{number:>5} │ ", rest="      │ ")


def _say(text: str, mark: str, *, rest: str | None = None) -> None:
    """Write a line behind its mark. Where a terminal wraps it, each further row has `rest` before it:
    no file can write into the first column, where our own words stand.
    """
    if not (mark and is_terminal(STDOUT)):
        say(f"{mark}{text}")
        return
    line = Line((("", text),), mark, rest=mark if rest is None else rest)
    width = os.get_terminal_size(STDOUT).columns or 80
    say(*("".join(part for _, part in row) for row in rows(line, width)))


@click.command("trust")
@click.option("--list", "lists", is_flag=True, help="List the workspaces you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting this workspace.")
@takes(*RUNS)
def trust(options: Options, lists: bool, revoke: bool) -> int:
    """Look at what this workspace's .midstream/ would switch on, and trust it."""
    store = TrustStore(user_state_dir(os.environ))
    if lists:
        return _list(store)
    return _revoke(store, options.workspace) if revoke else look_and_trust(store, options.workspace)


def look_and_trust(
    store: TrustStore, workspace: Path, *, whose: str = "", way: str = "midstream trust"
) -> int:
    """Show a person at the terminal what is not trusted as it stands, and ask; return the exit code.

    Args:
        store: what is trusted.
        workspace: the folder with a `.midstream`.
        whose: it is that of something else, such as a plugin.
        way: the command by which a person does this.
    """
    status = store.status(workspace, looks_below=True)
    if status.kind == "no_files":
        say(f"{status.workspace} has no files of its own to trust.")
        return FINISHED
    if status.kind == "trusted":
        say(f"{status.workspace} is trusted as it stands ({counted(len(status.files), 'file')}).")
        return FINISHED
    if not (is_terminal(STDIN) and is_terminal(STDOUT)):
        _show(status, store, whose)
        say(f"Not trusted. Only a person at a terminal can: {way}")
        return NOT_TRUSTED
    if not ask_trust(status, store, whose=whose):
        return NOT_TRUSTED
    store.grant(status)
    return FINISHED


def _list(store: TrustStore) -> int:
    rows = store.workspaces()
    for workspace, files in sorted(rows.items()):
        try:
            kind = str(store.status(Path(workspace)).kind)
        except MidstreamError as error:
            kind = error.what
        now = {"trusted": "as it stands", "changed": "CHANGED since: it asks again"}.get(kind, kind)
        say(f"{workspace}  {counted(len(files), 'file')}, {now}")
    if not rows:
        say("No workspace is trusted.")
    return FINISHED


def _revoke(store: TrustStore, workspace: Path) -> int:
    if store.revoke(workspace):
        say(f"{workspace} is no longer trusted.")
        return FINISHED
    say(f"{workspace} was not trusted.")
    return FAILED
