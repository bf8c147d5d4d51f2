"""The text of a PDF, page by page, read in a process of its own that can be killed.

A hostile PDF keeps a parser busy for hours or fills the memory: a program of few bytes may stand for a
text without end. So the parser runs in a child with limits, gets the bytes and no path, and whatever it
says is text. The child is this module:

    python -m midstream.tools.pdf_text <FILE
"""

import io
import os
import sys
import tempfile
from importlib.util import find_spec
from typing import Final

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system.own_process import beginning
from midstream.system.supervisor import run_briefly

BEGINNING: Final = b"%PDF-"
MAX_BYTES: Final = 50_000_000
MAX_PAGES: Final = 500
MAX_TEXT_BYTES: Final = 8_000_000
TIMEOUT_S: Final = 20.0
MAX_MEMORY: Final = 2 << 30
INSTALL: Final = "pip install 'midstream[pdf]'"
_INHERITED: Final = ("PATH", "LANG", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_NO_PDF: Final = 3
"""The exit code of a child that has said in a line what is wrong with the file."""


def is_pdf(data: bytes | bytearray) -> bool:
    """Return whether bytes begin as a PDF does."""
    return data.startswith(BEGINNING)


def text_of(data: bytes | bytearray, name: str) -> bytes:
    """Return the text of a PDF in UTF-8, a head before each page. Blocks, for seconds.

    Raises:
        UserMistake: it is too large, encrypted, or none; or the library is not installed.
        WorldTrouble: it took too long, or too much memory.
    """
    if find_spec("pypdf") is None:
        raise UserMistake(
            f"{name} is a PDF; to read one a library is needed that is not installed (pypdf).",
            hint=f"Run: {INSTALL}",
        )
    if len(data) > MAX_BYTES:
        raise UserMistake(
            f"{name} has {len(data):,} bytes; a PDF may have {MAX_BYTES:,}.",
            hint="Split it, or have its text extracted by a command.",
        )
    try:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            # -P: a module of the folder midstream was started in is never what runs.
            ended, said = run_briefly(
                [sys.executable, "-P", "-W", "ignore", "-m", __name__],
                environment={n: os.environ[n] for n in _INHERITED if n in os.environ},
                timeout_s=TIMEOUT_S,
                max_bytes=MAX_TEXT_BYTES,
                stdin=file.fileno(),
            )
    except OSError as error:
        raise WorldTrouble(
            f"{name} could not be read: {error}.", hint="Try again; nothing was changed."
        ) from error
    if ended.cause == "enough":
        return said + b"\n[... there is more text than is read of a PDF ...]\n"
    if ended.exit_code == 0 and not ended.cause:
        return said
    if ended.exit_code == _NO_PDF:
        why = beginning(said.decode("utf-8", "replace").strip(), 300)
        raise UserMistake(f"{name} cannot be read as a PDF: {why}.", hint="Open it yourself.")
    how = f"took longer than {TIMEOUT_S:g} s" if ended.cause else "took too much memory"
    raise WorldTrouble(
        f"Reading {name} {how}, and was ended.", hint="It may be made to do that: do not trust it."
    )


# --- in the child -------------------------------------------------------------------------------


def main() -> int:
    """Write the text of the PDF on stdin to stdout; return the exit code, behind a reason where it is 3."""
    _limit()
    out = sys.stdout.buffer
    # What the library has to say of a file goes nowhere.
    sys.stdout = sys.stderr = io.StringIO()
    try:
        from pypdf import PdfReader

        reader = PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            out.write(b"it is encrypted")
            return _NO_PDF
        count = len(reader.pages)
        for number in range(1, min(count, MAX_PAGES) + 1):
            out.write(f"--- page {number} of {count} ---\n".encode())
            out.write(_of_page(reader, number - 1))
            out.flush()
        if count > MAX_PAGES:
            out.write(f"[... pages {MAX_PAGES + 1}-{count} are not read ...]\n".encode())
    except MemoryError:
        return 1
    except Exception as error:
        words = " ".join(str(error).split()) or "it is damaged"
        out.write(f"{type(error).__name__}: {words}".encode("utf-8", "replace"))
        return _NO_PDF
    return 0


def _of_page(reader: object, number: int) -> bytes:
    try:
        text = reader.pages[number].extract_text()  # type: ignore[attr-defined]
    except MemoryError:
        raise
    except Exception as error:  # one page that is damaged does not hide the others
        return f"[this page cannot be read: {type(error).__name__}]\n".encode()
    text = text.replace("\0", "").strip()
    return (text or "[no text on this page: it may be a picture]").encode(
        "utf-8", "replace"
    ) + b"\n"


def _limit() -> None:
    """Bound what this process may take: memory, seconds, and it writes no file and starts nothing."""
    if sys.platform == "win32":
        return
    import resource

    for which, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CPU, int(TIMEOUT_S) + 5),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            hard = resource.getrlimit(which)[1]
            value = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError):
            continue  # Not every system bounds everything; the deadline always holds.


if __name__ == "__main__":
    sys.exit(main())
