"""Commands about the console itself: its model, tools, settings, and leaving it."""

from midstream.app.commands.command import Command
from midstream.app.commands.config_command import CONFIG_COMMANDS
from midstream.app.commands.mode_commands import WIDEST
from midstream.app.commands.model_command import MODEL_COMMAND
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import Operator
from midstream.system.own_process import columns
from midstream.views.cells import two_columns


async def _exit(operator: Operator, argument: str) -> None:
    operator.leave()


async def _clear(operator: Operator, argument: str) -> None:
    await operator.clear()


async def _tools(operator: Operator, argument: str) -> None:
    rows = [
        (name, f"{_freedom(spec)} · {_first_line(spec.description)}")
        for name, spec in sorted(operator.tools().items())
    ]
    operator.tell(two_columns(rows, width=min(columns(), WIDEST) - 2))


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
