"""Where workflows and roles are found, and the functions of a workflow's script."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from midstream.core.data_edits import Edit
from midstream.core.events import ContextChange
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.spec import Definition, Guidance, Role


class HandlerResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a handler did and, for a transition handler, the state it returned."""

    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    variables: dict[str, Json] = {}
    contexts: tuple[ContextChange, ...] = ()
    chosen: Json = None


class Handlers(Protocol):
    """The functions of a workflow's script."""

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the handler of that name did. `log` hears its lines, on the loop.

        Raises:
            AuthorMistake: it raised, took too long, is missing, or left what is not JSON.
        """


class Library(Protocol):
    """Where roles and workflows are found, by name."""

    def roles(self) -> dict[str, Role]:
        """Return every role by name."""

    def guidance(self) -> tuple[Guidance, ...]:
        """Return the words of the AGENTS.md files that count here."""

    def workflows(self) -> dict[str, str]:
        """Return every workflow's description by name."""

    async def load(self, name: str) -> tuple[Definition, Handlers]:
        """Return a workflow ready to run.

        Raises:
            UserMistake: there is no workflow of that name.
            AuthorMistake: its files have problems; the message lists all of them.
        """

    async def pinned(self, definition: Definition) -> Handlers:
        """Return the handlers of the script a run is pinned to, whatever the files are now.

        Raises:
            AuthorMistake: the script cannot be imported any more.
        """
