"""The sandbox as tools use it: measured once, then one command line after the other."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from midstream.safety.capability import SandboxLevel
from midstream.system.workspace_paths import is_for_agents
from midstream.tools.sandbox.guarded_files import Guarded, Lookout
from midstream.tools.sandbox.launch import Inside, Machinery, Prepared
from midstream.tools.sandbox.mounts import home_of, unfit
from midstream.tools.sandbox.probes import Measured, found_box, machinery, measured
from midstream.tools.sandbox.seatbelt import Sealed, Seatbelt

_LOOK_AGAIN_S: Final = 60.0


class Sandbox:
    """A sandbox and how good it is.

    Measuring takes up to a second the first time, a few milliseconds later. Whatever needs the result
    waits for it, in its own thread; `level` never waits.
    """

    def __init__(
        self, state: Path, *, hidden: Sequence[Path] = (), places: tuple[str, ...] | None = None
    ) -> None:
        """Take the folder of the user's own state, where the measurement is kept.

        No command sees it or the folders `hidden`, even where they lie inside a workspace.
        """
        self._state = state
        self._hidden = tuple(hidden)
        self._places = places
        self._lock = threading.Lock()
        self._known: tuple[Measured, Machinery | Seatbelt | None] | None = None
        self._lookouts: dict[Path, Lookout] = {}
        self._seen: dict[Path, tuple[float, Guarded]] = {}
        self._is_unfit: dict[Path, bool] = {}

    @property
    def level(self) -> SandboxLevel:
        """Return the measured level, `none` before it is known."""
        return "none" if self._known is None else self._known[0].level

    def level_in(self, workspace: Path) -> SandboxLevel | None:
        """Return what commands in a folder run in, None before that is known; never waits."""
        if self._known is None:
            return None
        if self.level == "none":
            return "none"
        is_unfit = self._is_unfit.get(workspace)
        return None if is_unfit is None else "none" if is_unfit else self.level

    def measure(self, *, again: bool = False) -> Measured:
        """Return what was measured, or measure now. Blocks: call it in a thread."""
        return self._measured(again=again)[0]

    def _measured(self, *, again: bool = False) -> tuple[Measured, Machinery | Seatbelt | None]:
        with self._lock:
            if self._known is None or again:
                result = measured(self._state, places=self._places, again=again)
                box = found_box(self._places)
                made = None
                if result.level != "none" and not isinstance(box, str):
                    made = machinery(self._state, box, self._hidden)
                self._known = (result, made)
            return self._known

    def unfit(self, workspace: Path) -> str:
        """Return why commands in this folder cannot run in the sandbox, "" when they can. Blocks."""
        result = self.measure()
        if result.level == "none":
            return result.why or "there is no sandbox"
        trouble = self._near_ours(workspace) or unfit(workspace, home_of(os.environ))
        self._is_unfit[workspace] = bool(trouble)
        return trouble

    def _near_ours(self, workspace: Path) -> str:
        """Return why what is ours could be reached from a workspace, "" where it cannot.

        A folder in it is hidden by a mount. That takes a folder that is there, and one whose parents
        a command cannot move away to put its own in their place.
        """
        real = Path(os.path.realpath(workspace))
        for ours in {Path(os.path.realpath(each)) for each in (self._state, *self._hidden)}:
            if real.is_relative_to(ours) and not is_for_agents(real):
                return f"{real} is where midstream keeps its own files"
            if ours.is_relative_to(real) and not (ours.parent == real and ours.is_dir()):
                return f"{real} has midstream's own files in it"
        return ""

    def wrapped(
        self,
        inside: Inside,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> Prepared | Sealed:
        """Return a command ready to start inside; `environment` is what it may be handed on of. Blocks.

        `tag` marks the processes for those outside. What is guarded is looked for, unless it is known.

        Raises:
            OSError: it cannot be prepared. Nothing was started.
        """
        result, made = self._measured()
        trouble = self.unfit(inside.workspace)
        if made is None or trouble:
            raise OSError(trouble or result.why or "there is no sandbox")
        if inside.looks_at is not None:
            if not self.can_mask():
                raise OSError("there is no sandbox any more")
        elif inside.guarded is None:
            guarded = self.guarded(inside.workspace)
            inside = msgspec.structs.replace(inside, guarded=guarded)
        return made.prepared(inside, argv, environment, tag)

    def can_look(self, workspace: Path) -> bool:
        """Return whether what only looks can run inside: nothing less than the whole will do. Blocks."""
        return self.can_mask() and not self.unfit(workspace)

    def can_mask(self) -> bool:
        """Return whether a command can be kept from reading names of a workspace. Blocks."""
        result, made = self._measured()
        return result.level == "full" and isinstance(made, Machinery) and made.bwrap.by_descriptor

    def guarded(self, workspace: Path) -> Guarded:
        """Return what of a folder is locked and shut for a command that starts now. Blocks."""
        real = Path(os.path.realpath(workspace))
        with self._lock:
            lookout = self._lookouts.setdefault(real, Lookout(real))
        found = lookout.look()
        self._seen[real] = (time.monotonic(), found)
        return found

    def seen(self, workspace: Path) -> Guarded:
        """Return what of a folder was guarded a moment ago, for a plan. Blocks.

        The command looks again as it starts.
        """
        real = Path(os.path.realpath(workspace))
        seen = self._seen.get(real)
        if seen is None or time.monotonic() - seen[0] > _LOOK_AGAIN_S:
            return self.guarded(real)
        return seen[1]
