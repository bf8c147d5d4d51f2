"""Commands about chats: the list of them, their names, and a long one made short."""

from midstream.app.commands.command import Command
from midstream.runtime.ports import Operator


async def _sessions(operator: Operator, argument: str) -> None:
    if argument:
        await operator.sessions.go(argument)
    else:
        operator.tell("\n".join(await operator.sessions.lines()))


async def _rename(operator: Operator, argument: str) -> None:
    await operator.sessions.rename(argument)


async def _compact(operator: Operator, argument: str) -> None:
    await operator.sessions.compact(argument)


async def _init(operator: Operator, argument: str) -> None:
    await operator.init(argument)


def _names(operator: Operator) -> list[tuple[str, str]]:
    return operator.sessions.names()


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
