"""A command people wrote, as a command: what it sends is shown, then sent as the person's own words."""

from functools import partial
from typing import Final

from midstream.app.commands.command import Command
from midstream.app.session import Session
from midstream.config.commands import WrittenCommand
from midstream.language.command_text import filled
from midstream.language.names import Mode

MAX_SHOWN_LINES: Final = 40
_BY_ITSELF: Final = "!`"
_NOT_RUN: Final = (
    "Nothing was run for it: what stands as !`command` in it is sent as it is. An agent that runs it is "
    "judged as ever."
)
_WHOSE: Final = {"user": "yours", "workspace": "of this workspace"}


def as_command(written: WrittenCommand) -> Command:
    """Return the command that sends the text of a written one."""
    whose = _WHOSE.get(written.layer, written.layer)
    return Command(
        name=written.name,
        summary=f"{written.description or 'sends its text'} ({whose})",
        # It takes words whether or not its head says which.
        arguments=written.arguments or "[WORDS]",
        action=partial(_send, written),
    )


async def _send(written: WrittenCommand, session: Session, typed: str) -> None:
    text = filled(written.text, typed)
    if written.role and session.switching.mode != Mode("role", written.role):
        await session.switching.enter(Mode("role", written.role))
    await session.input.say(text)
    # Behind a bar: no line of the file can pass for one of the console's own.
    lines = text.split("\n")
    shown = [f"│ {line}" for line in lines[:MAX_SHOWN_LINES]]
    if len(lines) > MAX_SHOWN_LINES:
        shown.append(f"+{len(lines) - MAX_SHOWN_LINES} more lines")
    session.ui.say("\n".join([f"/{written.name} sent:", *shown]), kind="note")
    if _BY_ITSELF in written.text:
        session.ui.say(_NOT_RUN, kind="note")
