"""Commands about chats: the list of them, their names, and a long one made short."""

from midstream.app.agents_file_draft import write_agents_file
from midstream.app.commands.command import Command
from midstream.app.session import Session


async def _sessions(session: Session, argument: str) -> None:
    if argument:
        await session.chats.go(argument)
    else:
        session.ui.say("\n".join(await session.chats.lines()))


async def _rename(session: Session, argument: str) -> None:
    await session.chats.rename(argument)


async def _compact(session: Session, argument: str) -> None:
    await session.chats.compact(argument)


async def _init(session: Session, argument: str) -> None:
    await write_agents_file(session, argument)


def _names(session: Session) -> list[tuple[str, str]]:
    return session.chats.names()


CHAT_COMMANDS = (
    Command(
        name="sessions",
        arguments="[NUMBER | NAME]",
        summary="list the chats of this folder, or go on with one",
        action=_sessions,
        complete=_names,
    ),
    Command(
        name="rename",
        arguments="NAME",
        summary="give this chat or run a name",
        action=_rename,
    ),
    Command(
        name="compact",
        arguments="[WHAT TO KEEP IN MIND]",
        summary="replace older turns by a summary; the journal keeps them",
        action=_compact,
    ),
    Command(
        name="init",
        arguments="[WHAT MATTERS]",
        summary="have an AGENTS.md written for this folder",
        action=_init,
    ),
)
