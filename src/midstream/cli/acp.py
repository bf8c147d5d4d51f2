"""midstream in an editor: the Agent Client Protocol on stdin and stdout."""

import asyncio
import os
import signal
import stat
import sys

import click

from midstream.app.assembly import Options
from midstream.cli.options import ALLOW, SETTINGS, takes
from midstream.cli.output import FINISHED, note
from midstream.language.errors import UserMistake
from midstream.system.own_process import STDERR, STDIN, STDOUT, is_terminal, run_until_signalled


@click.command("acp")
@takes(*SETTINGS, ALLOW)
def acp(options: Options) -> int:
    """Be the agent of an editor (Zed, JetBrains, Emacs, neovim): it starts this, and talks on stdin."""
    _require_pipes()
    if is_terminal(STDIN):
        note("midstream acp is started by an editor, which speaks to it on stdin: docs/editors.md.")
    # What handlers, libraries and programs print goes to stderr: stdout has the protocol and nothing else.
    own = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    sys.stdout = sys.stderr
    try:
        run_until_signalled(_served(options, own), signals=(signal.SIGTERM, signal.SIGINT))
    finally:
        os.close(own)
    return FINISHED


def _require_pipes() -> None:
    """Return if an event loop can wait for stdin and stdout; it would fail on a file, or hang on /dev/null.

    Raises:
        UserMistake: it cannot.
    """
    for name, descriptor in (("stdin", STDIN), ("stdout", STDOUT)):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            mode = 0
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or is_terminal(descriptor)):
            raise UserMistake(
                f"midstream acp talks to an editor over pipes, and its {name} is none.",
                hint="Let the editor start it: docs/editors.md says how.",
            )


async def _served(options: Options, out: int) -> None:
    from midstream.acp.door import Door

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    way, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(out), "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(way, protocol, None, loop)
    try:
        await Door(reader, writer, options=options, warn=note).run()
    finally:
        writer.close()
