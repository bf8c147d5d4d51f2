"""CommandHandler: lines that start with a slash, in every mode and at every moment."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from midstream.command.command import Command
from midstream.core.errors import UserMistake
from midstream.core.nearest import did_you_mean, nearest
from midstream.core.views.columns import two_columns
from midstream.ports import Operator
from midstream.process import columns


def is_command(line: str) -> bool:
    """Return whether a line is a command. `//` starts a text that begins with a slash."""
    return line.startswith("/") and not line.startswith("//")


class CommandHandler:
    """Finds and runs commands, and completes them."""

    def __init__(
        self, operator: Operator, *, topics: Mapping[str, Callable[[], str]] | None = None
    ) -> None:
        """Make one. `topics` are what `/help` tells of besides commands, such as the keys."""
        self._operator = operator
        self._topics = topics or {}

    @cached_property
    def commands(self) -> dict[str, Command]:
        """All of them by name. Importing them takes a moment; the first prompt waits for none."""
        from midstream.command.table import COMMANDS

        help_command = Command(
            name="help",
            summary="list the commands, or tell of one; /help keys: the keys",
            arguments="[COMMAND | keys]",
            action=self._help,
            complete=self._helped,
        )
        return {command.name: command for command in (help_command, *COMMANDS)}

    @cached_property
    def _by_word(self) -> dict[str, Command]:
        return {
            word: command
            for command in self.commands.values()
            for word in (command.name, *command.aliases)
        }

    async def handle(self, line: str) -> None:
        """Do what a `/line` says.

        Raises:
            UserMistake: there is no such command, or it cannot be done now; nothing changed.
        """
        name, _, argument = line[1:].strip().partition(" ")
        command = self._by_word.get(name.casefold())
        if command is None:
            best = nearest(name, self._by_word)
            hint = f"Did you mean /{best}?" if best else "/help lists them."
            raise UserMistake(f"There is no command /{name}.", hint=hint)
        argument = argument.strip()
        if argument and not command.arguments:
            hint = "Leave it out, or send it as a line of its own."
            raise UserMistake(f"/{command.name} takes nothing, not {argument!r}.", hint=hint)
        await command.action(self._operator, argument)

    def can_be_mended(self, line: str) -> bool:
        """Return whether a refused `/line` may be done if it is written otherwise.

        A command that is known and complete without an argument has nothing in it to mend.
        """
        name, _, argument = line[1:].strip().partition(" ")
        command = self._by_word.get(name.casefold())
        return command is None or bool(argument.strip()) or command.wants_argument

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the last word of a command line may go on, as (word, description) pairs."""
        name, space, argument = before[1:].partition(" ")
        if not space:
            return tuple(
                (f"/{word}", command.summary)
                for word, command in sorted(self.commands.items())
                if word.startswith(name.casefold())
            )
        command = self._by_word.get(name.casefold())
        if command is None:
            return ()
        before, space, word = argument.rpartition(" ")
        pairs = command.complete(self._operator)
        if space:
            pairs = command.then(self._operator, before.strip())
        return tuple(p for p in pairs if p[0].casefold().startswith(word.casefold()))

    def _helped(self, _operator: Operator) -> list[tuple[str, str]]:
        named = [(name, command.summary) for name, command in sorted(self.commands.items())]
        return [*((topic, "") for topic in self._topics), *named]

    async def learned(self, before: str) -> bool:
        """Find out what has to be asked for to complete a command line; return whether anything has."""
        name, space, _ = before[1:].partition(" ")
        command = self._by_word.get(name.casefold())
        if not space or command is None or command.learn is None:
            return False
        await command.learn(self._operator)
        return True

    async def _help(self, operator: Operator, argument: str) -> None:
        if argument in self._topics:
            operator.tell(self._topics[argument]())
            return
        if argument:
            command = self._by_word.get(argument.removeprefix("/").casefold())
            if command is None:
                hint = did_you_mean(argument, self._by_word)
                raise UserMistake(f"There is no command /{argument}.", hint=hint)
            operator.tell(f"/{command.name} {command.arguments}".strip() + f": {command.summary}")
            return
        rows = [
            (f"/{name} {command.arguments}".strip(), command.summary)
            for name, command in sorted(self.commands.items())
        ]
        # Two columns are the console's own, before each of its lines.
        width = min(columns() - 2, _WIDEST)
        operator.tell(f"{two_columns(rows, width=width)}\n\n{two_columns(_BESIDES, width=width)}")


_WIDEST: Final = 120

_BESIDES = (
    ("anything else", "goes to the chat or the running workflow, at any moment"),
    ("", "while something runs, it interrupts that: /queue and /steer do it more gently"),
    ("", "while a question is open, it answers that: #2 TEXT answers question 2"),
    ("/help keys", "the keys, and what else a line may begin with"),
)
