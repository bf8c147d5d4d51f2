"""A command people wrote, as a command: what it sends is shown, then sent as the person's own words."""

from functools import partial
from typing import Final

from midstream.app.commands.command import Command
from midstream.app.embedded_commands import text_of
from midstream.app.session import Session
from midstream.config.commands import WrittenCommand
from midstream.language.names import Mode

MAX_SHOWN_LINES: Final = 40
_WHOSE: Final = {"user": "yours", "workspace": "of this workspace"}


def as_command(written: WrittenCommand) -> Command:
    """Return the command that sends the text of a written one."""
    whose = f"plugin {written.plugin}" if written.plugin else _WHOSE.get(written.layer, "")
    return Command(
        name=written.name,
        summary=f"{written.description or 'sends its text'} ({whose})",
        # It takes words whether or not its head says which.
        arguments=written.arguments or "[WORDS]",
        action=partial(_send, written),
    )


async def _send(written: WrittenCommand, session: Session, typed: str) -> None:
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
