"""A program that draws the map of a folder: python -m midstream.codemap ROOT WANTED KEPT [FILE]."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import msgspec

from midstream.codemap.map_builder import Wanted, mapped


def main(arguments: list[str]) -> int:
    """Write the map of a folder to stdout; return the exit code.

    The arguments are ROOT WANTED KEPT [FILE]; WANTED is a `Wanted` in JSON, KEPT the file for what was
    seen, FILE holds the paths to leave out, each before a NUL.
    """
    root, wanted, kept, *files = arguments
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            names = [name for file in files for name in Path(file).read_bytes().split(b"\0")]
            text = mapped(
                Path(root),
                msgspec.json.decode(wanted, type=Wanted),
                without=[os.fsdecode(name) for name in names],
                kept=Path(kept),
            )
    except Exception as error:
        sys.stdout.write(f"{type(error).__name__}: {error}")
        return 1
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
