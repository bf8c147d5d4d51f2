"""The entry: `midstream` and `python -m midstream`. Ctrl-C ends quietly even while it still loads."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from midstream.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
