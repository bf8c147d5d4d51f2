"""What streams in a run, for whoever watches it from another process.

The owner of a run listens at a Unix socket beside the journal; a watcher connects, names the run, and
reads JSON lines (`Line`). Facts stay the journal's: of a fact the line says only its number, so that
a watcher reads it there, in its place among the pieces of text. So the order is the run's own:

    watcher -> {"run": "abcd2345"}
    owner   -> {"seq": 7}                                        facts up to 7 are journaled
               {"seq": 7, "event": {"type": "text_delta", ...}}   what is shown already of a reply under way
               {"seq": 7, "event": {...}, "offset": 40}           its next piece, after 40 characters
               {"seq": 8}                                        the reply has ended: read fact 8

From another machine the same is said by notes of the store that both share (`Pool.tell`), if it has any:
the watcher asks again and again, and the owner gathers what streams, and tells it for as long as it was
asked to.

Nobody who watches slows the run. What waits for a watcher is bounded: one that reads too slowly is cut
off from what comes, and once it has read what it got it is told the latest, as if it had just joined.
Where nobody watches nothing is done. Where there can be no socket, facts are all there is to see.
"""

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from midstream.core.notices import AnyNotice, Envelope, Notice, TextDelta
from midstream.language.errors import MidstreamError
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import NOTE_BYTES, Pool, Store
from midstream.system.offloop import cancel_all

TOGETHER_S: Final = 0.008
"""Seconds in which pieces are gathered: one write to each watcher carries all of them."""

MAX_WAITING: Final = 256 * 1024
"""Bytes that may wait for one watcher before it is cut off from what comes."""

LOOK_AGAIN_S: Final = 0.05
"""Seconds between two looks whether a watcher that was cut off has caught up."""

FAR_TOGETHER_S: Final = 0.1
"""Seconds between two notes to a watcher of another machine: each is a transaction of the database."""

STAY_S: Final = 2.0
"""Seconds after which such a watcher asks again, and looks whether the owner is still the same."""

FORGOTTEN_S: Final = 3 * STAY_S
"""Seconds after which one that did not ask again is told nothing more."""

_FAR_CHARS: Final = 1_000
"""Characters of a reply in one line of a note: even as escapes there is room for them."""

_MAX_LINE: Final = 4 * 1024 * 1024
_GREETING_S: Final = 5.0


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of the stream: up to which fact (`seq`) the journal goes, and perhaps what came after it.

    `at` is in seconds since 1970; `offset`, of a piece of text, is how many characters of its reply were
    shown before.
    """

    seq: int = 0
    event: AnyNotice | None = None
    at: float = 0.0
    offset: int = 0


class _Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a watcher says first.

    One of another machine says who it is, and says it again with `is_there`: it has what it was told.
    """

    run: str
    watcher: str = ""
    is_there: bool = False


_encode = msgspec.json.Encoder().encode


class LiveServer:
    """The socket of this process. Made and closed on the loop.

    Args:
        folder: where the sockets are; None: there is none.
        owner: whose it is.
        machine: returns a run of this process, None for any other.
        pool: what is shared with other machines, from which others watch; None: nothing is.
    """

    def __init__(
        self,
        folder: Path | None,
        owner: str,
        machine: Callable[[str], WorkflowStateMachine | None],
        pool: Pool | None = None,
    ) -> None:
        self._machine = machine
        self._watchers: dict[str, set[_AnyWatcher]] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._address = "" if folder is None else _address(folder, owner)
        self._task: asyncio.Task[None] | None = None
        listening = _bound(self._address)
        if listening is not None:
            self._task = asyncio.create_task(self._serve(listening), name="live")
        if pool is not None and folder is not None:
            self._begin(self._attend_far(pool), "far watchers")

    def publish(self, envelope: Envelope) -> None:
        """Tell the run's watchers of an event; at once where there is none."""
        if envelope.run not in self._watchers:
            return
        waiting = self._waiting.setdefault(envelope.run, [])
        event = envelope.event
        if envelope.seq is not None:
            # All that was journaled together is read together: its first fact says so of all.
            waiting.append(_line(Line(seq=max(envelope.seq, self._seq(envelope.run)))))
            self._send(envelope.run)  # who waits for a fact does not wait for more pieces
        elif isinstance(event, Notice):
            offset = self._offset(envelope.run, event) if isinstance(event, TextDelta) else 0
            line = Line(seq=self._seq(envelope.run), event=event, at=envelope.at, offset=offset)
            waiting.append(_line(line))
            if self._flush is None:
                loop = asyncio.get_running_loop()
                self._flush = loop.call_later(TOGETHER_S, self._send_all)

    async def close(self) -> None:
        """Hang up on everyone; may be called twice."""
        if self._flush is not None:
            self._flush.cancel()
        await cancel_all(*self._tasks, self._task)
        if self._task is not None:
            self._task = None
            with contextlib.suppress(OSError):
                os.unlink(self._address)

    # --- inside -----------------------------------------------------------------------------

    async def _serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connected, _ = await loop.sock_accept(listening)
                except OSError:
                    await asyncio.sleep(LOOK_AGAIN_S)  # too many files are open: some may be closed
                    continue
                self._begin(self._attend(connected), "live watcher")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, connected: socket.socket) -> None:
        """Serve one watcher until it hangs up."""
        if not _is_ours(connected):
            connected.close()
            return
        reader, writer = await asyncio.open_connection(sock=connected)
        try:
            async with asyncio.timeout(_GREETING_S):
                run = msgspec.json.decode(await reader.readline(), type=_Request).run
            if (machine := self._machine(run)) is None:
                return
            with self._watched(run, _Watcher(writer), machine):
                while await reader.read(1024):
                    pass
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError):
            pass  # it went, or it is no watcher
        finally:
            writer.transport.abort()

    @contextlib.contextmanager
    def _watched(
        self, run: str, watcher: "_AnyWatcher", machine: WorkflowStateMachine
    ) -> Iterator[None]:
        self._send(run)  # to those who were here before: what follows is for this one, too
        catch_up(watcher, machine)
        self._watchers.setdefault(run, set()).add(watcher)
        try:
            yield
        finally:
            self._watchers[run].discard(watcher)
            if not self._watchers[run]:
                del self._watchers[run]
                self._waiting.pop(run, None)

    async def _attend_far(self, pool: Pool) -> None:
        """Hear who watches from other machines."""
        far: dict[tuple[str, str], _FarWatcher] = {}
        with contextlib.suppress(MidstreamError), pool.told() as told:  # else it is closed
            while True:
                if (request := _requested(await told.get())) is not None:
                    self._ask(pool, request, far)

    def _ask(
        self, pool: Pool, request: _Request, far: dict[tuple[str, str], "_FarWatcher"]
    ) -> None:
        """Begin to tell a watcher of another machine of a run, or go on with it."""
        if (machine := self._machine(request.run)) is None:
            return
        key = (request.watcher, request.run)
        if (watcher := far.get(key)) is None:
            watcher = far[key] = _FarWatcher(pool, *key)
            self._begin(self._serve_far(watcher, machine, lambda: far.pop(key)), "far watcher")
        elif not request.is_there:
            catch_up(watcher, machine)
        watcher.stays()

    async def _serve_far(
        self, watcher: "_FarWatcher", machine: WorkflowStateMachine, gone: Callable[[], object]
    ) -> None:
        try:
            with self._watched(watcher.run, watcher, machine):
                await watcher.serve()
        finally:
            gone()

    def _offset(self, run: str, piece: TextDelta) -> int:
        """Return how much of the reply was shown before a piece that is the newest of it."""
        machine = self._machine(run)
        for branch, reply in machine.streaming() if machine is not None else ():
            if (branch, reply.agent) == (piece.branch, piece.agent):
                return reply.chars - len(piece.text)
        return 0

    def _seq(self, run: str) -> int:
        machine = self._machine(run)
        return 0 if machine is None else machine.run.seq

    def _send_all(self) -> None:
        self._flush = None
        for run in tuple(self._waiting):
            self._send(run)

    def _send(self, run: str) -> None:
        lines = self._waiting.pop(run, None)
        data = b"".join(lines or ())
        is_behind = False
        for watcher in self._watchers.get(run, ()):
            if not watcher.is_behind:
                watcher.send(data)
            elif watcher.is_drained and (machine := self._machine(run)) is not None:
                catch_up(watcher, machine)
            is_behind |= watcher.is_behind
        if is_behind:
            self._waiting.setdefault(run, [])
            if self._flush is None:
                loop = asyncio.get_running_loop()
                self._flush = loop.call_later(LOOK_AGAIN_S, self._send_all)


class _Watcher:
    """One connection, and whether it keeps up."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_behind = False

    @property
    def is_drained(self) -> bool:
        """Return whether it has taken all it was sent."""
        return self._writer.transport.get_write_buffer_size() == 0

    def send(self, data: bytes) -> None:
        """Send it lines, or leave it behind where it does not take them."""
        waiting = self._writer.transport.get_write_buffer_size()
        if waiting and waiting + len(data) > MAX_WAITING:
            self.is_behind = True
        elif data and not self._writer.is_closing():
            self._writer.write(data)


class _FarWatcher:
    """A process of another machine, that is told by notes; and whether they can be sent fast enough."""

    def __init__(self, pool: Pool, name: str, run: str) -> None:
        self._pool = pool
        self._name = name
        self.run = run
        self.is_behind = False
        self._waiting = b""
        self._has_news = asyncio.Event()
        self._until = 0.0

    @property
    def is_drained(self) -> bool:
        """Return whether all that it is to be told was sent."""
        return not self._waiting

    def send(self, data: bytes) -> None:
        """Send it lines with the next notes, or leave it behind where too many wait."""
        if self._waiting and len(self._waiting) + len(data) > MAX_WAITING:
            self.is_behind = True
        elif data:
            self._waiting += data
            self._has_news.set()

    def stays(self) -> None:
        """Know that it still watches."""
        self._until = asyncio.get_running_loop().time() + FORGOTTEN_S

    async def serve(self) -> None:
        """Send what there is to send, until it did not ask again for too long."""
        loop = asyncio.get_running_loop()
        try:
            while loop.time() < self._until:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._until):
                        await self._has_news.wait()
                self._has_news.clear()
                data, self._waiting = self._waiting, b""
                for note in _notes(self.run, data):
                    await self._pool.tell(self._name, note)
                await asyncio.sleep(FAR_TOGETHER_S)
        except MidstreamError:
            return  # the database is away: it asks again
        finally:
            with contextlib.suppress(MidstreamError, TimeoutError):
                async with asyncio.timeout(_GREETING_S):
                    await self._pool.tell(self._name, _note(self.run))


_AnyWatcher: TypeAlias = _Watcher | _FarWatcher


def catch_up(watcher: _AnyWatcher, machine: WorkflowStateMachine) -> None:
    """Send a watcher how a run stands now."""
    watcher.is_behind = False
    lines = [Line(seq=machine.run.seq)]
    lines += [
        Line(
            seq=machine.run.seq,
            event=TextDelta(branch=branch, agent=reply.agent, text=reply.words),
        )
        for branch, reply in machine.streaming()
        if reply.chars
    ]
    watcher.send(b"".join(map(_line, lines)))


def _line(line: Line) -> bytes:
    return _encode(line) + b"\n"


# --- watching ---------------------------------------------------------------------------------


async def live_lines(folder: Path | None, owner: str, run: str) -> AsyncGenerator[Line, None]:
    """Yield what the owner of a run tells until it hangs up; nothing where it tells nothing."""
    if folder is None or not owner or sys.platform == "win32":
        return
    try:
        with _short(_address(folder, owner)) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=_MAX_LINE)
    except OSError:
        return
    try:
        writer.write(msgspec.json.encode(_Request(run=run)) + b"\n")
        decode = msgspec.json.Decoder(Line).decode
        while line := await reader.readline():
            yield decode(line)
    except (OSError, ValueError, msgspec.MsgspecError):
        return  # it died in mid-line, or speaks another version: facts are read all the same
    finally:
        writer.transport.abort()


async def far_lines(store: Store, owner: str, run: str) -> AsyncGenerator[Line, None]:
    """Yield what the owner of a run on another machine tells, until it has another one."""
    if not owner or not isinstance(store, Pool):
        return
    loop, decode = asyncio.get_running_loop(), msgspec.json.Decoder(Line).decode

    async def ask(*, is_there: bool) -> float:
        request = _Request(run=run, watcher=store.me, is_there=is_there)
        await store.tell(owner, msgspec.json.encode(request).decode())
        return loop.time() + STAY_S

    asks_at, is_gone = loop.time() + STAY_S, False
    # What is no line comes of another version: facts are read all the same.
    with contextlib.suppress(ValueError, msgspec.MsgspecError), store.told() as notes:
        while not is_gone:
            is_gone = await store.owner_of(run) != owner
            if is_gone:
                asks_at = loop.time() + 2 * FAR_TOGETHER_S  # its last words may be on their way
            while loop.time() < asks_at:
                note = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(asks_at):
                        note = await notes.get()
                if note == "":
                    asks_at = await ask(is_there=False)
                elif note == _note(run):
                    return  # it has no more to tell
                elif note is not None and note.startswith(_note(run)):
                    for line in note.split("\n")[1:-1]:
                        yield decode(line)
            if not is_gone:
                asks_at = await ask(is_there=True)


def _requested(note: str) -> _Request | None:
    """Return what a watcher asks for, None where the note is another."""
    with contextlib.suppress(ValueError, msgspec.MsgspecError):
        return msgspec.json.decode(note, type=_Request)
    return None


def _note(run: str, lines: bytes = b"") -> str:
    return f"{run}\n{lines.decode()}"


def _notes(run: str, lines: bytes) -> Iterator[str]:
    """Yield the notes that tell a watcher these lines, each as long as it may be."""
    gathered = b""
    for line in _parted(lines):
        if gathered and len(gathered) + len(line) > NOTE_BYTES - _RUN_BYTES:
            yield _note(run, gathered)
            gathered = b""
        gathered += line
    if gathered:
        yield _note(run, gathered)


_RUN_BYTES: Final = 300
"""Room for the id of the run."""


def _parted(lines: bytes) -> Iterator[bytes]:
    """Yield lines of which each fits into a note: a long piece of text in parts; else it is left out."""
    for line in lines.splitlines(keepends=True):
        if len(line) <= NOTE_BYTES - _RUN_BYTES:
            yield line
            continue
        whole = msgspec.json.decode(line, type=Line)
        if not isinstance(event := whole.event, TextDelta):
            continue
        for begin in range(0, len(event.text), _FAR_CHARS):
            part = replace(event, text=event.text[begin : begin + _FAR_CHARS])
            yield _line(replace(whole, event=part, offset=whole.offset + begin))


# --- sockets ----------------------------------------------------------------------------------


def _address(folder: Path, owner: str) -> str:
    return str(folder / f"{owner}.live")


@contextlib.contextmanager
def _short(address: str) -> Iterator[str]:
    """Give an address that fits into a socket's name: a longer one by way of its open folder.

    Raises:
        OSError: there is no such folder.
    """
    if len(os.fsencode(address)) < _LONGEST or sys.platform != "linux":
        yield address
        return
    folder, name = os.path.split(address)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)


_LONGEST: Final = 100
"""Bytes of a path that fit into the name of a Unix socket everywhere; Linux has 108."""


def _bound(address: str) -> socket.socket | None:
    """Return a socket that only we can connect to, None where there can be none."""
    if not address or sys.platform == "win32":
        return None
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(address) as short:
            listening.bind(short)
        os.chmod(address, 0o600)
        listening.listen(64)
    except OSError:
        listening.close()
        return None
    listening.setblocking(False)
    return listening


def _is_ours(connected: socket.socket) -> bool:
    """Return whether the other side runs as us; the socket's mode says it where the system does not."""
    if sys.platform != "linux":
        return True
    size = struct.calcsize("3i")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())
