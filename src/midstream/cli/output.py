"""What the commands write and how they end: one writer, and the exit codes.

Click is not imported: the library's door, which needs none of it, comes this way, too.
"""

import json
import shutil
from typing import Any, Final

import msgspec

from midstream.app.assembly import Options
from midstream.language.errors import MidstreamError, NotTrusted
from midstream.system.own_process import (
    STDOUT,
    OutputLost,
    complain,
    drop_stdout,
    is_terminal,
    write_error,
    write_out,
)

FINISHED: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_TRUSTED: Final = 3
PARKED: Final = 4
"""A question nobody answered holds the run up."""
INTERRUPTED: Final = 130
"""By Ctrl-C."""
SIGNALLED: Final = 128
"""By another signal: this and its number, such as 143 for SIGTERM."""


def say(*lines: str) -> None:
    """Write lines to stdout, for a person."""
    write_out("".join(f"{line}\n" for line in lines))


def say_object(*values: Any) -> None:
    """Write values to stdout as JSON, one a line, for a program."""
    for value in values:
        write_out(f"{json.dumps(msgspec.to_builtins(value, enc_hook=str))}\n")


def answer(options: Options, value: Any, *lines: str) -> None:
    """Write what was asked for: the value where the output is for a program, else the lines."""
    if options.is_json:
        say_object(value)
    else:
        say(*lines)


def note(*lines: str) -> None:
    """Write lines to stderr: what a person should know and is not what was asked for."""
    for line in lines:
        write_error(f"{line}\n")


def end_with(error: MidstreamError) -> int:
    """Say what went wrong; return the exit code, by whose move it is."""
    if isinstance(error, OutputLost):
        drop_stdout()
        # A reader that left on purpose, such as `head`, has what it wanted.
        if not error.is_unread:
            complain(f"midstream: {error}")
        return FAILED
    complain(f"midstream: {error}")
    if isinstance(error, NotTrusted):
        return NOT_TRUSTED
    return USAGE if error.fault == "user" else FAILED


def columns() -> int:
    """Return how wide what is written for a person may be; 80 where it is not a terminal."""
    return min(shutil.get_terminal_size().columns, 100) if is_terminal(STDOUT) else 80
