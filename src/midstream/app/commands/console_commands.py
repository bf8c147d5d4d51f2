"""Commands about the console itself: its model, tools, settings, and leaving it."""

from midstream.app.commands.command import Command
from midstream.app.commands.config_command import CONFIG_COMMANDS
from midstream.app.commands.mode_commands import WIDEST
from midstream.app.commands.model_command import MODEL_COMMAND
from midstream.app.session import Session
from midstream.language.spec import ToolSpec
from midstream.system.own_process import columns
from midstream.views.cells import two_columns


async def _exit(session: Session, argument: str) -> None:
    session.is_leaving = True


async def _clear(session: Session, argument: str) -> None:
    await session.switching.clear()


async def _tools(session: Session, argument: str) -> None:
    rows = [
        (name, f"{_freedom(spec)} · {_first_line(spec.description)}")
        for name, spec in sorted(session.equipment.tools.items())
    ]
    session.ui.say(two_columns(rows, width=min(columns(), WIDEST) - 2))


def _freedom(spec: ToolSpec) -> str:
    return "asks first" if spec.needs_approval else spec.effect


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


SESSION_COMMANDS = (
    Command(name="exit", summary="leave; runs are kept", action=_exit, aliases=("quit",)),
    Command(
        name="clear", summary="begin a new chat; /sessions goes back to this one", action=_clear
    ),
    MODEL_COMMAND,
    Command(name="tools", summary="list the tools agents may use", action=_tools),
    *CONFIG_COMMANDS,
)
