"""Where a run of a repository works: a folder of its own, which is made anew wherever the run goes on.

Before the end of a call that may have changed files is journaled, what the files are then is in the blob
store, and a fact says so (`file_written`, of the call `$tree`). So whatever the journal says was done has
its files, on every machine. What a call has done that had not ended is not in them: its outcome is unknown
to the run, and it says so.

The folder is another on each machine; the run calls it `URL#COMMIT`, and so do its facts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from midstream.core import inputs
from midstream.core.events import FileWritten
from midstream.core.run import Run
from midstream.language.errors import MidstreamError
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.run_folder import RunFolder
from midstream.views.side_effects import TREE

_TITLE: Final = 72


CUT: Final = (
    "The files are those of the last call that had ended: what was written since is not here."
)


class RunPlace:
    """The folder of one run under way, and what is kept of it. `places.opened_place` gives one.

    Args:
        folder: the folder.
        put_blob: keeps what it holds.
        name: what the run calls it.
        push: the branch that the result is pushed to, "" for none.
        tree: what is journaled of it so far.
        began_at: when the run began, in seconds since 1970: its result is dated so.
    """

    def __init__(
        self,
        folder: RunFolder,
        put_blob: Callable[[bytes], Awaitable[str]],
        name: str,
        push: str,
        tree: str,
        began_at: float = 0.0,
    ) -> None:
        self.path = folder.path
        self.name = name
        self._folder = folder
        self._put_blob = put_blob
        self._push = push
        self._tree = tree
        self._began_at = began_at
        self._left_out: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    def named(self, path: Path) -> str:
        """Return what the run calls a file of the folder."""
        if path.is_relative_to(self.path):
            return f"{self.name}/{path.relative_to(self.path).as_posix()}"
        return str(path)

    async def keep(self, put: Callable[[inputs.FilesSeen], Awaitable[None]]) -> None:
        """Keep what the files are now, and journal that by `put`, unless nothing has changed.

        Raises:
            WorldTrouble: they cannot be kept.
        """
        async with self._one_at_a_time:  # so that the facts are in the order of the trees
            await self._keep(put)

    async def _keep(self, put: Callable[[inputs.FilesSeen], Awaitable[None]]) -> None:
        kept = await in_thread(partial(self._folder.keep, self._tree))
        if kept is None:
            return
        key = await self._put_blob(kept.encoded())
        fact = FileWritten(call_id=TREE, path=self.name, before=None, after=key)
        news = [name for name in kept.left_out if name not in self._left_out]
        await put(inputs.FilesSeen(branch="", manifest=None, files=(fact,), note=_left_words(news)))
        # Only now: cancelled before it is journaled, the next pack begins where this one did.
        self._left_out.update(news)
        self._tree = kept.tree

    async def finish(self, run: Run, put: Callable[[inputs.FilesSeen], Awaitable[None]]) -> None:
        """Keep the files of a run that is about to end, and push them where that was asked for.

        Whatever fails is said in the run. A call that waits for its own files to be journaled is not
        waited for: it waits for whoever ends the run.
        """
        note = ""
        try:
            await self._keep(put)
            if self._push and run.status == "finished":
                commit = await in_thread(partial(self._committed, run))
                await in_thread(partial(self._folder.push, commit, self._push))
                note = f"Pushed to the branch {self._push}: {commit[:12]}"
        except MidstreamError as error:
            note = (
                f"The result was not pushed to {self._push}: {error.what} "
                f"`midstream fetch {run.id}` gets it."
                if self._push
                else f"What the files are at the end was not kept: {error.what}"
            )
        with suppress(MidstreamError):  # whoever ends the run hears it, too
            if note:
                await put(inputs.FilesSeen(branch="", manifest=None, note=sanitized(note)))

    def _committed(self, run: Run) -> str:
        return self._folder.commit_of(self._tree, words_of(run), self._began_at)

    async def let_go(self) -> None:
        """Leave the folder as it is, for the next time; nothing of the run may be under way here."""
        await in_thread(self._folder.let_go)

    async def remove(self) -> None:
        """Take the folder away."""
        await in_thread(self._folder.remove)


def _left_words(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (
        "Not kept, and not there where the run goes on elsewhere, since they may hold secrets or are "
        f"repositories of their own: {', '.join(map(sanitized, names[:5]))}{more}"
    )


def words_of(run: Run) -> str:
    """Return what the commit of a run's result says."""
    workflow = "" if run.definition is None else run.definition.workflow.workflow_name
    said = run.input if isinstance(run.input, str) else ""
    title = " ".join(sanitized(run.name or said or workflow).split()) or "What a run has made"
    if len(title) > _TITLE:
        title = f"{title[: _TITLE - 3]}..."
    return f"{title}\n\nRun {run.id} of {sanitized(workflow)}, by midstream.\n"
