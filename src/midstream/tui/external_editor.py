"""The line in the person's own editor: `$VISUAL`, `$EDITOR`, else one that is there.

The text lies in a private file while the editor runs, and is gone with it. The editor has the terminal
meanwhile: runs go on, frames wait.
"""

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from prompt_toolkit.application.run_in_terminal import in_terminal

from midstream.config.portable import O_CLOEXEC
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system.offloop import in_thread
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.display import Display
from midstream.tui.editor import Editor

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
    from midstream.system.supervisor import (
        run_in_terminal,
    )  # no editor opens before the first prompt

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
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | O_CLOEXEC, 0o600), "w") as file:
        file.write(f"{text}\n" if text else "")


def _read(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_CHARS)


_LOOKS: Final = 200
_LOOK_S: Final = 0.01


class Outside:
    """Hands the terminal to the person's editor, and takes it back.

    `covered` hears, when the editor has ended, that what was drawn is not on the screen any more.
    """

    def __init__(
        self,
        editor: Editor,
        display: Display,
        background: BackgroundTasks,
        *,
        covered: Callable[[], None],
    ) -> None:
        self._editor = editor
        self._display = display
        self._background = background
        self._covered = covered
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the person's editor has the terminal."""
        return self._task is not None

    def open(self) -> None:
        """Open the line in the editor; nothing happens where it is open already."""
        if self._task is None and (task := self._background.begin_guarded(self._open())):
            self._task, self._editor.is_away = task, True
            task.add_done_callback(self._back)

    def close(self) -> None:
        """End the editor; the line stays as it was."""
        if self._task is not None:
            self._task.cancel()

    def _back(self, _done: asyncio.Task[None]) -> None:
        self._task = None
        self._editor.is_away = False

    async def _open(self) -> None:
        argv = editor_command(os.environ)
        text = self._editor.unfolded()
        async with in_terminal():
            try:
                await self._written()
                changed = await edited(text, argv, terminal=self._display.fileno())
                if changed != text:
                    self._editor.replace(changed)
            finally:
                self._covered()

    async def _written(self) -> None:
        """Return when the terminal has what was drawn before: the editor draws by itself."""
        for _ in range(_LOOKS):
            if not self._display.is_congested:
                return
            await asyncio.sleep(_LOOK_S)
