"""The entry: `midstream` and `python -m midstream`. Ctrl-C ends quietly even while it still loads."""

import gc
import os
import sys


def _leave_out_this_folder() -> None:
    """Import nothing from the current folder, where `python -m` looks first: a stranger wrote it."""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[:1] in ([""], [here]) and ours != here:
        del sys.path[0]


def main() -> None:
    """Run the command line and leave with its exit code."""
    # What is imported is there to stay: looking through it for garbage is a twentieth of the start.
    gc.disable()
    try:
        from midstream.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    _leave_out_this_folder()
    main()
