"""What the files of a workspace hold, before and after somebody works in it who does not tell us.

A look notes size and time of each file, and keeps what it holds, as far as there is room: all of it in one
pack of the blob store, later looks only what is new. So what was there before is known after a crash, too.
Left aside is what `.gitignore` leaves out, what hidden folders hold, and links.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from midstream.core.events import FileWritten
from midstream.core.notices import Envelope
from midstream.core.routing import living
from midstream.core.run import Run
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.runtime.effects import kept_unless_secret
from midstream.runtime.ports import World
from midstream.safety.capability import Capability, forbids_secrets
from midstream.system.offloop import in_thread
from midstream.system.put_in_place import BESIDE
from midstream.system.walk import walk
from midstream.system.workspace_paths import MAX_FILE_BYTES as MAX_READ_BYTES
from midstream.system.workspace_paths import Place, read_bytes
from midstream.views.side_effects import SEEN

MAX_FILES = 20_000
MAX_FILE_BYTES = 1_000_000
MAX_PACK_BYTES = 64_000_000


class SeenFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was. It lies in the blob `pack` from `start` on; "": it was not kept."""

    size: int
    changed_ns: int
    digest: str = ""
    pack: str = ""
    start: int = 0


class FileWatch:
    """Looks at the files of one folder, again and again. What was looked at stays known.

    Its looks are one after the other. Changes that are recorded elsewhere are told to it (`recorded`).
    `manifest` is the key of the last look that nothing was compared with yet, "" for none.
    """

    def __init__(self, folder: Path, world: World, manifest: str = "") -> None:
        self.manifest = manifest
        self._folder = folder
        self._world = world
        self._known: dict[str, SeenFile] = {}
        self._recorded: dict[str, str] = {}

    def recorded(self, path: Path, text: str) -> None:
        """Hear that a change is recorded by whoever made it. Blocks."""
        with suppress(ValueError):
            name = path.resolve().relative_to(self._place.root).as_posix()
            self._recorded[name] = hashlib.sha256(text.encode()).hexdigest()

    @property
    def _place(self) -> Place:
        return Place(root=Path(self._folder).resolve(), parts=())

    async def look(self) -> str:
        """Return the key of what the files hold now.

        Raises:
            WorldTrouble: it cannot be kept, or there are too many files.
        """
        self._recorded.clear()
        found, pack = await in_thread(partial(self._found, self._known, keeps=True))
        key = await self._world.blobs.put(bytes(pack)) if pack else ""
        self._known, data = await in_thread(partial(_packed, found, key))
        self.manifest = await self._world.blobs.put(data)
        return self.manifest

    async def changes(self) -> tuple[tuple[FileWritten, ...], str]:
        """Return what has changed since the last look, and in words of what it is not known what it held.

        Raises:
            WorldTrouble: the files cannot be looked at, or what they held is not there any more.
        """
        manifest, self.manifest = self.manifest, ""
        data = await self._world.blobs.get(manifest)
        before = await in_thread(partial(msgspec.json.decode, data, type=dict[str, SeenFile]))
        now, _ = await in_thread(partial(self._found, before, keeps=False))
        written: list[FileWritten] = []
        lost: list[str] = []
        for path in await in_thread(partial(_different, before, now)):
            old, new = before.get(path), now.get(path)
            after = None if new is None else await self._kept_now(path)
            if path in self._recorded and self._recorded[path] == after:
                continue
            if (old is not None and not old.pack) or (new is not None and after is None):
                lost.append(path)
                continue
            held = None if old is None else await self._kept_before(old)
            if held != after:
                full = str(self._place.root / path)
                written.append(FileWritten(call_id=SEEN, path=full, before=held, after=after))
        note = ""
        if lost:
            names = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
            note = f"Changed, and what it held before was not kept, so /undo cannot put it back: {names}"
        return tuple(written), note

    def _found(
        self, known: dict[str, SeenFile], *, keeps: bool
    ) -> tuple[dict[str, SeenFile], bytearray]:
        """Return the files there are, and what those hold that are not known yet. Blocks."""
        found: dict[str, SeenFile] = {}
        pack = bytearray()
        for path, size, changed_ns in self._files():
            old = known.get(path)
            if old is not None and (old.size, old.changed_ns) == (size, changed_ns):
                found[path] = old
                continue
            data = self._read(path) if size <= MAX_FILE_BYTES else None
            if data is None or len(data) != size or len(pack) + size > MAX_PACK_BYTES:
                found[path] = SeenFile(size, changed_ns)
                continue
            digest = hashlib.sha256(data).hexdigest()
            if not keeps:
                found[path] = SeenFile(size, changed_ns, digest)
                continue
            found[path] = SeenFile(size, changed_ns, digest, _HERE, len(pack))
            pack += data
        return found, pack

    def _files(self) -> Iterator[tuple[str, int, int]]:
        count = 0
        for entry in walk(self._place):
            # Another branch's file may be about to be put in its place.
            if entry.is_folder or entry.link is not None or entry.path.endswith(BESIDE):
                continue
            count += 1
            if count > MAX_FILES:
                raise WorldTrouble(
                    f"There are more than {MAX_FILES:,} files in {self._folder}: what an external agent "
                    "changes is not seen, unless it tells.",
                    hint="Leave out what is made, in .gitignore.",
                )
            yield entry.path, entry.size, entry.changed_ns

    def _read(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
        """Return what a file holds, None where it is not to be kept: a secret, or nothing to be read."""
        if forbids_secrets(Capability(kind="read", target=path)):
            return None
        with suppress(MidstreamError, OSError):
            place = Place(root=self._place.root, parts=tuple(path.split("/")))
            return bytes(read_bytes(place, max_bytes=max_bytes))
        return None

    async def _kept_now(self, path: str) -> str | None:
        """Return the key of what a file holds now, None where it cannot be read or is not to be kept."""
        data = await in_thread(partial(self._read, path, MAX_READ_BYTES))
        if data is None:
            return None
        return await kept_unless_secret(data, self._world)

    async def _kept_before(self, seen: SeenFile) -> str:
        pack = await self._world.blobs.get(seen.pack)
        data = pack[seen.start : seen.start + seen.size]
        return await self._world.blobs.put(data)


async def written_so_far(run: Run, facts: Sequence[Envelope], world: World) -> tuple[Envelope, ...]:
    """Return what external agents at work have changed since they were sent to it, as the facts that would
    come next; nothing is journaled.

    `facts` are all those of the run: what they tell is not told again.

    Raises:
        WorldTrouble: the files cannot be looked at, or what they held is not there any more.
    """
    known = {
        fact.event.path: fact.event.after for fact in facts if isinstance(fact.event, FileWritten)
    }
    found: list[FileWritten] = []
    for each in (run, *living(run)):
        if each.manifest:
            files, _ = await FileWatch(world.workspace, world, each.manifest).changes()
            found += (file for file in files if known.get(file.path, _NOTHING) != file.after)
    return tuple(
        Envelope(run=run.id, at=facts[-1].at, event=file, seq=seq)
        for seq, file in enumerate(found, len(facts) + 1)
    )


_NOTHING = "nothing"
"""Stands for the key of a file that no fact tells of."""

_HERE = "here"
"""Stands for the key of the pack that is being made."""


def _packed(found: dict[str, SeenFile], key: str) -> tuple[dict[str, SeenFile], bytes]:
    """Return what was found with the pack by its name, and all of it as it is kept."""
    known = {
        path: msgspec.structs.replace(seen, pack=key) if seen.pack == _HERE else seen
        for path, seen in found.items()
    }
    return known, msgspec.json.encode(known)


def _different(before: dict[str, SeenFile], now: dict[str, SeenFile]) -> list[str]:
    """Return the paths of files that came, went or hold something else, in order."""
    paths = before.keys() | now.keys()
    return sorted(path for path in paths if not _is_same(before.get(path), now.get(path)))


def _is_same(old: SeenFile | None, new: SeenFile | None) -> bool:
    """Return whether a file holds what it held, as far as that is known."""
    if old == new:
        return True
    return old is not None and new is not None and bool(old.digest) and old.digest == new.digest
