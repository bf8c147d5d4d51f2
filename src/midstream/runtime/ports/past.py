"""The past of the active run, as `/commands` use it."""

from collections.abc import Sequence
from typing import Protocol

from midstream.core.notices import Envelope
from midstream.runtime.ports.tools import ChangedFile
from midstream.views.turns import Turn


class PastOperator(Protocol):
    """What became of the active run so far, and going back in it.

    What cannot be done raises UserMistake, unchanged.
    """

    async def fork(self, at: int | None) -> None:
        """Go on in a copy of the active run as it was after fact `at`; the run itself stays."""

    async def undo(self, *, keeps_files: bool = False) -> None:
        """Take back the last turn of the active run, and its file changes unless `keeps_files`."""

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run that words began, the newest first."""

    async def back(self, turn: Turn) -> None:
        """Go back to before a turn of the active run, files too, and hand its words back."""

    async def export(self, file: str) -> str:
        """Write the active run as one file, "" for a name made of its id; return where it is."""

    async def redo(self) -> None:
        """Go forward again from an undo, if nothing was said or changed since."""

    async def put_back(self) -> None:
        """Put files back that the run wrote after the point last gone back to."""

    async def facts(self) -> Sequence[Envelope]:
        """Return the facts of the active run so far, in order; none where nothing was said yet."""

    async def changes(self) -> tuple[ChangedFile, ...]:
        """Return what the active run has made of files, in the order it first wrote them."""

    def written(self) -> list[str]:
        """Return the names of the files the active run has written, as known now, the last first.

        Of a run of an earlier process they are known a moment after the first look.
        """
