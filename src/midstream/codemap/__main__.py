"""The program that draws the map of a folder, or measures it: `midstream.tools` starts it as a child.

    python -m midstream.codemap map ROOT WANTED KEPT [FILE]
    python -m midstream.codemap figures ROOT COMMITS TOP [FILE]

WANTED is a `Wanted` in JSON, KEPT the file for what was seen. FILE holds the paths to leave out, each
before a NUL.
"""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import msgspec

from midstream.codemap.code_figures import as_json, measure
from midstream.codemap.map_builder import Wanted, draw_map
from midstream.codemap.source_files import FILE_S, at_most


def main(arguments: list[str]) -> int:
    """Write what is asked for to stdout; return the exit code, after the reason where it is 1."""
    # lizard puts the folder of argv[0] in front of sys.path, and prints what it cannot read.
    sys.argv[0] = ""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            text = _answer(*arguments)
    except Exception as error:
        sys.stdout.write(f"{type(error).__name__}: {error}")
        return 1
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


def _answer(what: str, root: str, first: str, second: str, *files: str) -> str:
    names = [name for file in files for name in Path(file).read_bytes().split(b"\0")]
    without = [os.fsdecode(name) for name in names]
    if what == "map":
        wanted = msgspec.json.decode(first, type=Wanted)
        return draw_map(Path(root), wanted, without=without, kept=Path(second))
    figures = measure(
        Path(root),
        commits=int(first),
        top=int(second),
        guard=partial(at_most, FILE_S),
        without=without,
    )
    return as_json(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
