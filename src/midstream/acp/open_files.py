"""The files as they stand in an editor: what is not saved yet is what the person means.

Tools ask in threads of theirs, behind the policy's yes, about a file they have read from the disk. What the
editor has is a text: a difference in line ends, in a byte order mark or in the last newline is none.
"""

import asyncio
import codecs
import contextlib
from concurrent.futures import TimeoutError as TooLate
from pathlib import Path
from typing import Final

from midstream.agents import acp_messages as m
from midstream.agents.json_rpc import Disconnected, Peer, RpcError, params_of
from midstream.language.errors import UserMistake
from midstream.language.names import Json

ANSWERS_WITHIN_S: Final = 5.0
SAVES_WITHIN_S: Final = 20.0


class EditorFiles:
    """The open files of one session. Made on the loop, asked in threads."""

    def __init__(self, peer: Peer, can: m.FileSystemCapabilities) -> None:
        self.session = ""
        """The session they are asked for; nothing is asked before there is one."""
        self._peer = peer
        self._can = can
        self._loop = asyncio.get_running_loop()

    def unsaved(self, path: Path, saved: bytes) -> bytes | None:
        """Return what the editor has of a file that the disk has otherwise; see `OpenFiles`."""
        if not (self._can.read_text_file and self.session):
            return None
        try:
            held = saved.decode()
        except UnicodeDecodeError:
            return None
        request = m.ReadTextFileRequest(session_id=self.session, path=str(path))
        try:
            answer = self._asked("fs/read_text_file", request, ANSWERS_WITHIN_S)
            text = params_of(m.ReadTextFileResponse, _object(answer)).content
        except (RpcError, Disconnected, TooLate):
            return None  # it is not open there, or the editor is gone
        if _plain(text) == _plain(held):
            return None
        if "\r\n" in held and "\r\n" not in text:
            text = text.replace("\n", "\r\n")
        if held.endswith("\n") and not text.endswith("\n"):
            text += "\r\n" if "\r\n" in held else "\n"
        mark = codecs.BOM_UTF8 if saved.startswith(codecs.BOM_UTF8) else b""
        return mark + text.removeprefix("\ufeff").encode()

    def require_saving(self, path: Path) -> None:
        """Raise UserMistake where the editor saves nothing for us."""
        if not self._can.write_text_file:
            raise UserMistake(
                f"{path.name} has changes in the editor that are not saved.",
                hint="Ask the user to save it; then read it again.",
            )

    def save(self, path: Path, data: bytes) -> None:
        """Have the editor hold and save a text; see `OpenFiles`."""
        request = m.WriteTextFileRequest(
            session_id=self.session, path=str(path), content=data.decode()
        )
        try:
            self._asked("fs/write_text_file", request, SAVES_WITHIN_S)
        except (RpcError, Disconnected, TooLate) as error:
            why = str(error) or "it did not answer"
            raise UserMistake(
                f"The editor did not save {path.name}: {why}.", hint="Read it again, as it is now."
            ) from None

    def _asked(self, method: str, request: m.Message, within_s: float) -> Json:
        asked = asyncio.run_coroutine_threadsafe(self._peer.request(method, request), self._loop)
        try:
            return asked.result(within_s)
        except BaseException:
            with contextlib.suppress(RuntimeError):
                asked.cancel()
            raise


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n")


def _object(answer: Json) -> dict[str, Json]:
    return answer if isinstance(answer, dict) else {}
