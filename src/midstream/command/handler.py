"""CommandHandler: lines that start with a slash, in every mode and at every moment."""

from midstream.command.command import Command
from midstream.command.kept import KEPT_COMMANDS
from midstream.command.mcp import MCP_COMMANDS
from midstream.command.modes import MODE_COMMANDS
from midstream.command.permissions import PERMISSION_COMMANDS
from midstream.command.runs import RUN_COMMANDS
from midstream.command.session import SESSION_COMMANDS
from midstream.command.travel import TRAVEL_COMMANDS
from midstream.core.errors import UserMistake
from midstream.core.nearest import did_you_mean, nearest
from midstream.ports import Operator


def is_command(line: str) -> bool:
    """Return whether a line is a command. `//` starts a text that begins with a slash."""
    return line.startswith("/") and not line.startswith("//")


class CommandHandler:
    """Finds and runs commands, and completes them."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        help_command = Command(
            name="help", summary="list the commands", arguments="[COMMAND]", action=self._help
        )
        commands = (
            help_command,
            *MODE_COMMANDS,
            *RUN_COMMANDS,
            *KEPT_COMMANDS,
            *TRAVEL_COMMANDS,
            *PERMISSION_COMMANDS,
            *MCP_COMMANDS,
            *SESSION_COMMANDS,
        )
        self.commands = {command.name: command for command in commands}
        self._by_word = {
            word: command for command in commands for word in (command.name, *command.aliases)
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
        await command.action(self._operator, argument.strip())

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
        if command is None or " " in argument:
            return ()
        return tuple(
            pair
            for pair in command.complete(self._operator)
            if pair[0].casefold().startswith(argument.casefold())
        )

    async def _help(self, operator: Operator, argument: str) -> None:
        if argument:
            command = self._by_word.get(argument.removeprefix("/").casefold())
            if command is None:
                hint = did_you_mean(argument, self._by_word)
                raise UserMistake(f"There is no command /{argument}.", hint=hint)
            operator.tell(f"/{command.name} {command.arguments}".strip() + f": {command.summary}")
            return
        shown = {name: f"/{name} {c.arguments}".strip() for name, c in self.commands.items()}
        width = max(map(len, shown.values()))
        lines = [f"{shown[n].ljust(width)}  {c.summary}" for n, c in sorted(self.commands.items())]
        operator.tell("\n".join([*lines, *_BESIDES]))


_BESIDES = (
    "",
    "Anything else goes to the chat or the running workflow, at any moment:",
    "  while something runs, your words interrupt it (/queue or /steer to do it more gently);",
    "  while a question is open, they answer it (#2 TEXT answers question 2).",
    "  //TEXT sends a text that starts with a slash.  Esc stops the current turn.",
)
