"""Every command but `/help`, and the groups in which people are shown them."""

from typing import Final

from midstream.app.commands.command import Command
from midstream.app.commands.history_commands import DIFF_COMMANDS, HISTORY_COMMANDS
from midstream.app.commands.look_commands import READING_COMMANDS
from midstream.app.commands.mode_commands import MODE_COMMANDS, SESSION_COMMANDS
from midstream.app.commands.permission_commands import MCP_COMMANDS, PERMISSION_COMMANDS
from midstream.app.commands.run_commands import CHAT_COMMANDS, RUN_COMMANDS, STORED_COMMANDS

COMMANDS: Final[tuple[Command, ...]] = (
    *MODE_COMMANDS,
    *RUN_COMMANDS,
    *READING_COMMANDS,
    *STORED_COMMANDS,
    *CHAT_COMMANDS,
    *HISTORY_COMMANDS,
    *DIFF_COMMANDS,
    *PERMISSION_COMMANDS,
    *MCP_COMMANDS,
    *SESSION_COMMANDS,
)


def words_of_commands() -> frozenset[str]:
    """Return every word that is a command of midstream's own, and no file's."""
    words = (word for command in COMMANDS for word in (command.name, *command.aliases))
    return frozenset(("help", *words))


FIRST: Final = (
    *("workflow", "role", "model", "permissions", "resume"),
    *("undo", "diff", "cost", "clear", "help"),
)
"""The commands that matter first, in the order in which they are shown."""

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Chats and runs": (
        *("mode", "roles", "workflows", "runs", "workers", "attach", "detach", "send", "answer"),
        *("sessions", "rename"),
    ),
    "Steering": ("stop", "queue", "steer", "interrupt", "btw", "tasks"),
    "Looking": (
        "last",
        "todo",
        "verbose",
        "state",
        "graph",
        "history",
        "context",
        "copy",
        "export",
    ),
    "Going back": ("redo", "back", "fork", "putback", "compact"),
    "Setting up": (
        "tools",
        "mcp",
        "init",
        "remember",
        "config",
        "doctor",
        "web",
        "trust",
        "welcome",
        "exit",
    ),
}
"""The other commands, by what they are for. Every command stands here or in `FIRST`, once."""
