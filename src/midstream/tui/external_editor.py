"""The line in the person's own editor: `$VISUAL`, `$EDITOR`, else one that is there.

The text lies in a private file while the editor runs, and is gone with it.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system.offloop import in_thread
from midstream.system.supervisor import run_in_terminal

_ELSE: Final = ("sensible-editor", "nano", "vim", "vi")
_MAX_CHARS: Final = 10_000_000


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """Return the argv of the person's editor, without the file.

    Raises:
        UserMistake: none is named that can be read, and none found.
    """
    for name in ("VISUAL", "EDITOR"):
        if environ.get(name, "").strip():
            try:
                return shlex.split(environ[name])
            except ValueError as error:
                raise UserMistake(f"{name} cannot be read: {error}.", hint="Mend it.") from None
    for program in _ELSE:
        if (found := shutil.which(program)) is not None:
            return [found]
    raise UserMistake("There is no editor.", hint="Set EDITOR, such as EDITOR=nano.")


async def edited(text: str, argv: list[str], *, terminal: int) -> str:
    """Return the text as the person left it in the editor, which has the terminal meanwhile.

    Cancelling ends the editor.

    Raises:
        WorldTrouble: the editor could not be started, or failed.
    """
    folder = Path(await in_thread(lambda: tempfile.mkdtemp(prefix="midstream-")))
    try:
        return await _edited(text, argv, folder / "line.md", terminal)
    finally:
        await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))


async def _edited(text: str, argv: list[str], path: Path, terminal: int) -> str:
    await in_thread(lambda: _write(path, text))
    try:
        code = (await run_in_terminal([*argv, str(path)], terminal=terminal)).exit_code
    except (OSError, ValueError) as error:
        raise WorldTrouble(
            f"The editor {argv[0]!r} could not be started: {error}.",
            hint="Set EDITOR to one that can, such as EDITOR=nano.",
        ) from None
    if code:
        raise WorldTrouble(
            f"The editor {argv[0]!r} ended with {code}: your line is as it was.",
            hint="Read its output above, or set EDITOR to another editor.",
        )
    try:
        return (await in_thread(lambda: _read(path))).removesuffix("\n")
    except OSError as error:
        raise WorldTrouble(
            f"What the editor wrote cannot be read: {error}.", hint="Your line is as it was."
        ) from None


def _write(path: Path, text: str) -> None:
    with open(
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w"
    ) as file:
        file.write(f"{text}\n" if text else "")


def _read(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_CHARS)
