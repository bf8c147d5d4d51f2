"""Beginning a run of a repository here, for workers on any machine to go on with."""

import os

import msgspec

from midstream.app.assembly import Options, Parts
from midstream.config.directories import user_state_dir
from midstream.config.trust import TrustStore
from midstream.runtime.places import folder_of, place_of
from midstream.runtime.state_machine import new_run_id
from midstream.runtime.storage import Placement
from midstream.system.checkout import source_named
from midstream.system.repository import require_branch


class CommitFolder:
    """The folder in which a run of a commit begins, with that commit's own workflows; to be removed then.

    To make one resolves the commit and fetches it. That blocks, as `open` and `remove` do.

    Args:
        repository: `URL`, `URL@REF`, or `.`: the HEAD of the checkout that the workspace is in.
        options: how the workspace is opened; the folder is opened the same.
        placement: who the run is of, its queue, and the branch to push to at its end.
        id: the run's id; None: a fresh one.

    Raises:
        UserMistake: there is no such commit, HEAD has not been pushed, or no branch can be called so.
        WorldTrouble: the repository cannot be reached.
    """

    def __init__(
        self, repository: str, options: Options, placement: Placement, id: str | None = None
    ) -> None:
        if placement.push:
            require_branch(placement.push)
        self._options = options
        self._state = user_state_dir(os.environ)
        self.source = source_named(repository, options.workspace, self._state)
        self.placement = msgspec.structs.replace(
            placement, host="", repository=self.source.url, commit=self.source.commit
        )
        self.id = id or new_run_id()
        self._folder = folder_of(self.id, self.placement, self._state)

    def open(self) -> Options:
        """Make its files those of the commit; return how it is opened.

        What a person has trusted in the workspace is trusted where it is the same bytes.

        Raises:
            WorldTrouble: it cannot be made.
        """
        self._folder.open()
        path, trusts = self._folder.path, self._options.trusts_workspace
        if trusts is None and TrustStore(self._state).knows(path, self._options.workspace):
            trusts = True
        return msgspec.structs.replace(self._options, workspace=path, trusts_workspace=trusts)

    def place_in(self, made: Parts) -> None:
        """Have what begins with the parts of this folder be a run of the commit."""
        place = place_of(self._folder, made.store, self.placement)
        made.engine.world = msgspec.structs.replace(made.engine.world, place=place)

    def remove(self) -> None:
        """Take the folder away, unless a worker here has it by now."""
        self._folder.remove()
