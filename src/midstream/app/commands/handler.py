"""CommandHandler: lines that start with a slash, in every mode and at every moment."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from midstream.app.commands.command import Command, room
from midstream.app.session import Session
from midstream.language.errors import UserMistake, did_you_mean, nearest
from midstream.language.names import Mode
from midstream.system.offloop import in_thread
from midstream.views.cells import two_columns

if TYPE_CHECKING:
    from midstream.config.commands import WrittenCommand

MAX_SHOWN_LINES: Final = 40
"""Lines of what a command that people wrote has sent that are shown."""
_WHOSE: Final = {"user": "yours", "workspace": "of this workspace"}

_ELSEWHERE: Final = {
    word: where
    for words, where in {
        "new reset": "/clear begins a new chat.",
        "save": "Every chat is kept; /export NAME.md saves one.",
        "load open chats": "/sessions lists the chats, /resume goes on with a run.",
        "theme color": "The colours are your terminal's; NO_COLOR=1 turns them off.",
        "settings set": "/config shows the settings and changes one.",
        "plan auto ask approve": "/permissions plan, ask or auto.",
        "login logout key": "API keys are environment variables: /doctor says which.",
        "agents agent chat": "/roles lists the roles, /role NAME chats with one.",
        "skills skill commands": (
            "A file commands/NAME.md is a command, a folder skills/NAME a skill: docs/customise.md."
        ),
        "plugin plugins": "midstream plugin list shows yours, midstream plugin add takes one.",
        "memory": "/remember WORDS keeps something for this folder; /init writes an AGENTS.md.",
        "tokens usage": "/cost says what was used.",
    }.items()
    for word in words.split()
}
"""What other programs call what is here by another name, and where it is."""


class CommandHandler:
    """Finds and runs commands, and completes them."""

    def __init__(
        self, session: Session, *, topics: Mapping[str, Callable[[], str]] | None = None
    ) -> None:
        """Make one. `topics` are what `/help` tells of besides commands, such as the keys."""
        self._session = session
        self._topics = topics or {}

    @cached_property
    def commands(self) -> dict[str, Command]:
        """All of them by name. Importing them takes a moment; the first prompt waits for none."""
        from midstream.app.commands.table import COMMANDS

        help_command = Command(
            name="help",
            summary="this page; /help all: every command; /help keys: the keys",
            arguments="[COMMAND | all | keys]",
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
            command = (await in_thread(self._written)).get(name.casefold())
        if command is None:
            best = nearest(name, self._by_word)
            hint = f"Did you mean /{best}?" if best else "/help lists them."
            hint = _ELSEWHERE.get(name.casefold(), hint)
            raise UserMistake(f"There is no command /{name}.", hint=hint)
        argument = argument.strip()
        if argument and not command.arguments:
            hint = "Leave it out, or send it as a line of its own."
            raise UserMistake(f"/{command.name} takes nothing, not {argument!r}.", hint=hint)
        await command.action(self._session, argument)

    def can_be_mended(self, line: str) -> bool:
        """Return whether a refused `/line` may be done if it is written otherwise.

        A command that is complete without an argument has nothing in it to mend, and an unknown one would
        stand before whatever is typed next; Up brings it back.
        """
        name, _, argument = line[1:].strip().partition(" ")
        command = self._found(name)
        return command is not None and (bool(argument.strip()) or command.wants_argument)

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the last word of a command line may go on, as (word, description) pairs."""
        name, space, argument = before[1:].partition(" ")
        if not name and not space:
            return self._first()
        if not space:
            return tuple(
                (f"/{word}", command.summary)
                for word, command in sorted((self._written() | self.commands).items())
                if word.startswith(name.casefold())
            )
        command = self._by_word.get(name.casefold())
        if command is None:
            return ()
        before, space, word = argument.rpartition(" ")
        pairs = command.complete(self._session)
        if space:
            pairs = command.then(self._session, before.strip())
        return tuple(p for p in pairs if p[0].casefold().startswith(word.casefold()))

    def _first(self) -> tuple[tuple[str, str], ...]:
        """Return the commands that matter first; the last of them, `/help`, has the others."""
        from midstream.app.commands.table import FIRST

        more = f"{len(self.commands) - len(FIRST)} more commands, and the keys"
        *named, last = ((f"/{name}", self.commands[name].summary) for name in FIRST)
        return (*named, (last[0], more))

    def _helped(self, _session: Session) -> list[tuple[str, str]]:
        named = [(name, command.summary) for name, command in sorted(self.commands.items())]
        return [*((topic, "") for topic in (_ALL, *self._topics)), *named]

    def _written(self) -> dict[str, Command]:
        """Return the commands people wrote. One that is called as ours is left out, and told of."""
        # Not needed before the prompt is there.
        from midstream.config.commands import written_commands

        config = self._session.config
        found = written_commands(config, self._by_word.keys())
        for name in sorted(found.keys() & self._by_word.keys()):
            config.notice(f"/{name} stays midstream's own command: yours needs another name.")
        return {
            name: _as_command(each) for name, each in found.items() if name not in self._by_word
        }

    def _found(self, name: str) -> Command | None:
        return self._by_word.get(name.casefold()) or self._written().get(name.casefold())

    async def learned(self, before: str) -> bool:
        """Find out what has to be asked for to complete a command line; return whether anything has."""
        name, space, _ = before[1:].partition(" ")
        command = self._by_word.get(name.casefold())
        if not space or command is None or command.learn is None:
            return False
        await command.learn(self._session)
        return True

    async def _help(self, session: Session, argument: str) -> None:
        if argument in self._topics:
            session.ui.say(self._topics[argument]())
            return
        width = room()
        if argument == _ALL:
            session.ui.say(self._all(width))
            return
        if argument:
            command = self._found(argument.removeprefix("/"))
            if command is None:
                hint = did_you_mean(argument, self._by_word)
                raise UserMistake(f"There is no command /{argument}.", hint=hint)
            session.ui.say(f"/{command.name} {command.arguments}".strip() + f": {command.summary}")
            return
        from midstream.app.commands.table import FIRST, GROUPS

        more = [(title, " ".join(f"/{name}" for name in names)) for title, names in GROUPS.items()]
        first = [(f"/{name}", self.commands[name].summary) for name in FIRST]
        parts = (first, more, _BESIDES)
        session.ui.say("\n\n".join(two_columns(rows, width=width) for rows in parts))

    def _all(self, width: int) -> str:
        """Return every command with what it does, the first first, the others by group."""
        from midstream.app.commands.table import FIRST, GROUPS

        first = two_columns(self._rows(FIRST), width=width)
        groups = (
            f"{title}\n{two_columns(self._rows(names), width=width)}"
            for title, names in GROUPS.items()
        )
        written = self._written()
        own = (f"Your own\n{two_columns(_rows(written, sorted(written)), width=width)}",)
        return "\n\n".join((first, *groups, *(own if written else ())))

    def _rows(self, names: Iterable[str]) -> list[tuple[str, str]]:
        return _rows(self.commands, names)


def _rows(commands: Mapping[str, Command], names: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (f"/{name} {commands[name].arguments}".strip(), commands[name].summary) for name in names
    ]


_ALL: Final = "all"

_BESIDES = (
    ("other lines", "go to the chat or the running workflow, at any moment"),
    ("", "while something runs, a line interrupts it; /queue and /steer are gentler"),
    ("", "while a question is open, a line answers it; #2 TEXT answers question 2"),
    ("", "what else a line may begin with: /help keys"),
)


def _as_command(written: "WrittenCommand") -> Command:
    """Return the command that sends the text of a written one."""
    whose = f"plugin {written.plugin}" if written.plugin else _WHOSE.get(written.layer, "")
    return Command(
        name=written.name,
        summary=f"{written.description or 'sends its text'} ({whose})",
        # It takes words whether or not its head says which.
        arguments=written.arguments or "[WORDS]",
        action=partial(_send, written),
    )


async def _send(written: "WrittenCommand", session: Session, typed: str) -> None:
    """Send the text of a written command as the person's own words, and show it."""
    from midstream.app.embedded_commands import text_of

    switching, parts = session.switching, session.parts
    if written.role and switching.mode != Mode("role", written.role):
        await switching.enter(Mode("role", written.role))
    text, ran = await text_of(
        written,
        typed,
        tools=parts.tools,
        store=parts.engine.store,
        run_it=partial(switching.prepare, approvals="ask" if session.is_attended else "deny"),
    )
    if ran:
        session.ui.say(ran, kind="note")
    await session.input.say(text)
    # Behind a bar: no line of the file can pass for one of the console's own.
    lines = text.split("\n")
    shown = [f"│ {line}" for line in lines[:MAX_SHOWN_LINES]]
    if len(lines) > MAX_SHOWN_LINES:
        shown.append(f"+{len(lines) - MAX_SHOWN_LINES} more lines")
    session.ui.say("\n".join([f"/{written.name} sent:", *shown]), kind="note")
