"""The console as its `/commands` use it."""

from collections.abc import Sequence
from typing import Protocol

from midstream.language.mode import Mode
from midstream.language.names import Json, Policy
from midstream.language.spec import ToolSpec
from midstream.runtime.ports.machine import Machine
from midstream.runtime.ports.mcp import McpOperator
from midstream.runtime.ports.models import Models
from midstream.runtime.ports.past import PastOperator
from midstream.runtime.ports.permits import Permits
from midstream.runtime.ports.runs import RunsOperator, SessionsOperator
from midstream.runtime.ports.tools import ChangedFile
from midstream.runtime.ports.workflows import Library


class Operator(Protocol):
    """The console as its `/commands` use it. What cannot be done raises UserMistake, unchanged."""

    @property
    def runs(self) -> RunsOperator:
        """Return what can be done with the runs of the workspace."""

    @property
    def past(self) -> PastOperator:
        """Return what can be done with the past of the active run."""

    @property
    def sessions(self) -> SessionsOperator:
        """Return what can be done with the chats of the workspace."""

    @property
    def mode(self) -> Mode:
        """Return the mode: which role is chatted with, or which workflow is active."""

    @property
    def library(self) -> Library:
        """Return where roles and workflows are found."""

    @property
    def models(self) -> Models:
        """Return which models are used."""

    @property
    def permits(self) -> Permits:
        """Return what may happen unasked."""

    @property
    def mcp(self) -> McpOperator | None:
        """Return what can be done with MCP servers, None where the settings name none."""

    def tools(self) -> dict[str, ToolSpec]:
        """Return the tools agents may use, by name."""

    def active(self) -> Machine | None:
        """Return the run that lines go to now, None in a chat nothing was said in yet."""

    def machines(self) -> tuple[Machine, ...]:
        """Return every run of this console, the oldest first."""

    def settings(self) -> tuple[tuple[str, str, str], ...]:
        """Return (key, value, where it comes from) for every setting."""

    async def enter(self, mode: str, input: Json = None) -> None:
        """Go to a mode such as `role:dude`, or to a workflow, which starts with `input`."""

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""

    async def clear(self) -> None:
        """Leave the chat of the current role as it is; the next line starts a new one."""

    async def init(self, note: str) -> None:
        """Have an AGENTS.md written for the workspace; `note` says what matters in it."""

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy instead of the state's own."""

    async def welcome(self) -> None:
        """Tell what this is, what was found to begin with, and what to try."""

    async def trust(self, code: str) -> None:
        """Show the workspace's own files ("" for the code), or trust those that were shown with it."""

    async def examine(self) -> None:
        """Tell what is there and what is missing, as `midstream doctor` does."""

    async def configured(self, key: str, value: str | None) -> str:
        """Set a setting of the user's own, None: take it out; return what is true now."""

    def explained(self, key: str) -> str:
        """Return a setting's value, where it comes from, and what it hides."""

    def tell(self, text: str) -> None:
        """Show words of the console."""

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Show what became of files, each with its difference."""

    def verbose(self, is_on: bool | None) -> bool:
        """Show tool results and reasoning in full, or not; None: turn it over. Return how it is now."""

    def show_last(self) -> None:
        """Show the last tool result or reasoning in full, the one before it if asked again."""

    async def copy(self, text: str) -> str:
        """Put a text into the clipboard, or where that cannot be done into a file; say which."""

    def follow(self, machine: Machine | None) -> bool:
        """Keep the graph of a run above the prompt; see `Face.follow`."""

    def ended(self) -> Machine | None:
        """Return the active workflow that has ended, until something else is spoken to."""

    def leave(self) -> None:
        """Leave the console once this command is done."""
