"""The line in the person's own editor, which has the terminal meanwhile: runs go on, frames wait."""

import asyncio
from collections.abc import Callable
from typing import Final

from prompt_toolkit.application.run_in_terminal import in_terminal

from midstream.language.errors import MidstreamError
from midstream.tui.editor import Editor

_LOOKS: Final = 200
_LOOK_S: Final = 0.01


class Outside:
    """Hands the terminal to the person's editor, and takes it back.

    Args:
        editor: holds the line.
        covered: hears, when the editor has ended, that what was drawn is not on the screen any more.
        is_congested: whether the terminal has not taken yet what it was sent.
        say: tells what went wrong.
    """

    def __init__(
        self,
        editor: Editor,
        *,
        covered: Callable[[], None],
        is_congested: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._editor = editor
        self._covered = covered
        self._is_congested = is_congested
        self._say = say
        self._under_way: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the person's editor has the terminal."""
        return self._under_way is not None

    def open(self, tasks: asyncio.TaskGroup, *, terminal: int) -> None:
        """Open the line in the editor; nothing happens where it is open already."""
        if self._under_way is None:
            self._editor.is_away = True
            self._under_way = tasks.create_task(self._seen_to_its_end(terminal))
            self._under_way.add_done_callback(self._back)

    def close(self) -> None:
        """End the editor; the line stays as it was."""
        if self._under_way is not None:
            self._under_way.cancel()

    def _back(self, _done: asyncio.Task[None]) -> None:
        self._under_way = None
        self._editor.is_away = False

    async def _seen_to_its_end(self, terminal: int) -> None:
        try:
            await self._open(terminal)
        except MidstreamError as error:
            self._say(str(error))
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}")

    async def _open(self, terminal: int) -> None:
        from os import environ

        from midstream.tui.external_editor import edited, editor_command

        argv = editor_command(environ)
        text = self._editor.unfolded()
        async with in_terminal():
            try:
                await self._written()
                changed = await edited(text, argv, terminal=terminal)
                if changed != text:
                    self._editor.replace(changed)
            finally:
                self._covered()

    async def _written(self) -> None:
        """Return when the terminal has what was drawn before: the editor draws by itself."""
        for _ in range(_LOOKS):
            if not self._is_congested():
                return
            await asyncio.sleep(_LOOK_S)
