"""Every command but `/help`, and the groups in which people are shown them."""

from typing import Final

from midstream.app.commands import (
    config_command,
    cost_command,
    history_commands,
    look_commands,
    mode_commands,
    permission_commands,
    run_commands,
)
from midstream.app.commands.command import Command

_WRITTEN_IN: Final = (
    mode_commands,
    run_commands,
    cost_command,
    look_commands,
    history_commands,
    permission_commands,
    config_command,
)
COMMANDS: Final[tuple[Command, ...]] = tuple(
    each for module in _WRITTEN_IN for each in vars(module).values() if isinstance(each, Command)
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

GROUPS: Final = {
    title: tuple(names.split())
    for title, names in {
        "Chats and runs": "mode roles workflows runs workers attach detach send answer sessions rename",
        "Steering": "stop queue steer interrupt btw tasks",
        "Looking": "last todo verbose state graph history context copy export",
        "Going back": "redo back fork putback compact",
        "Setting up": "tools mcp init remember config doctor web trust welcome exit",
    }.items()
}
"""The other commands, by what they are for. Every command stands here or in `FIRST`, once."""
