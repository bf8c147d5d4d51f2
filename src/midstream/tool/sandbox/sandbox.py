"""The sandbox as tools use it: measured once, then one command line after the other."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from midstream.core.safety.capability import SandboxLevel
from midstream.tool.sandbox.bwrap import PLACES, found_bwrap
from midstream.tool.sandbox.launch import Machinery, Prepared
from midstream.tool.sandbox.measuring import Measured, machinery, measured
from midstream.tool.sandbox.view import home_of, nested_repositories, unfit

_LOOK_AGAIN_S: Final = 60.0


class Sandbox:
    """A sandbox and how good it is.

    Measuring takes up to a second the first time, a few milliseconds later. Whatever needs the result
    waits for it, in its own thread; `level` and `known` never wait.
    """

    def __init__(
        self, state: Path, *, hidden: Sequence[Path] = (), places: tuple[str, ...] = PLACES
    ) -> None:
        """Take the folder of the user's own state, where the measurement is kept.

        No command sees it or the folders `hidden`, even where they lie inside a workspace.
        """
        self._state = state
        self._hidden = tuple(hidden)
        self._places = places
        self._lock = threading.Lock()
        self._known: tuple[Measured, Machinery | None] | None = None
        self._nested: dict[Path, tuple[float, tuple[str, ...]]] = {}
        self._is_unfit: dict[Path, bool] = {}

    @property
    def known(self) -> Measured | None:
        """Return what was measured, None before that."""
        return None if self._known is None else self._known[0]

    @property
    def level(self) -> SandboxLevel:
        """Return the measured level, `none` before it is known."""
        return "none" if self._known is None else self._known[0].level

    def level_in(self, workspace: Path) -> SandboxLevel:
        """Return what commands in a folder run in, as far as it is known; never waits."""
        return "none" if self._is_unfit.get(workspace) else self.level

    def measure(self, *, again: bool = False) -> Measured:
        """Return what was measured, or measure now. Blocks: call it in a thread."""
        return self._measured(again=again)[0]

    def _measured(self, *, again: bool = False) -> tuple[Measured, Machinery | None]:
        with self._lock:
            if self._known is None or again:
                result = measured(self._state, places=self._places, again=again)
                bwrap = found_bwrap(self._places)
                made = None
                if result.level != "none" and not isinstance(bwrap, str):
                    made = machinery(self._state, bwrap, self._hidden)
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
            if real.is_relative_to(ours):
                return f"{real} is where midstream keeps its own files"
            if ours.is_relative_to(real) and not (ours.parent == real and ours.is_dir()):
                return f"{real} has midstream's own files in it"
        return ""

    def wrapped(
        self,
        argv: Sequence[str],
        *,
        workspace: Path,
        environment: Mapping[str, str],
        tag: Mapping[str, str] | None = None,
        network: bool = False,
    ) -> Prepared:
        """Return a command ready to start inside; `environment` is what it may be handed on of. Blocks.

        `tag` marks the processes for those outside. With `network` it shares the machine's network.

        Raises:
            OSError: it cannot be prepared. Nothing was started.
        """
        result, made = self._measured()
        trouble = self.unfit(workspace)
        if made is None or trouble:
            raise OSError(trouble or result.why or "there is no sandbox")
        real = Path(os.path.realpath(workspace))
        return Prepared(
            made,
            argv,
            workspace=real,
            environment=environment,
            tag=tag or {},
            network=network,
            nested=self._nested_in(real),
        )

    def _nested_in(self, workspace: Path) -> tuple[str, ...]:
        """Return the repositories below; what was found a moment ago will do."""
        kept = self._nested.get(workspace)
        now = time.monotonic()
        if kept is None or now - kept[0] > _LOOK_AGAIN_S:
            kept = (now, nested_repositories(workspace))
            self._nested[workspace] = kept
        return kept[1]
