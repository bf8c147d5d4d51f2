"""Exit codes of the command line."""

from typing import Final

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
