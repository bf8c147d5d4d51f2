"""Every command but `/help`, in no order that matters."""

from typing import Final

from midstream.command.changes import DIFF_COMMANDS
from midstream.command.command import Command
from midstream.command.kept import KEPT_COMMANDS
from midstream.command.mcp import MCP_COMMANDS
from midstream.command.modes import MODE_COMMANDS
from midstream.command.permissions import PERMISSION_COMMANDS
from midstream.command.reading import READING_COMMANDS
from midstream.command.runs import RUN_COMMANDS
from midstream.command.session import SESSION_COMMANDS
from midstream.command.sessions import CHAT_COMMANDS
from midstream.command.travel import TRAVEL_COMMANDS

COMMANDS: Final[tuple[Command, ...]] = (
    *MODE_COMMANDS,
    *RUN_COMMANDS,
    *READING_COMMANDS,
    *KEPT_COMMANDS,
    *CHAT_COMMANDS,
    *TRAVEL_COMMANDS,
    *DIFF_COMMANDS,
    *PERMISSION_COMMANDS,
    *MCP_COMMANDS,
    *SESSION_COMMANDS,
)
