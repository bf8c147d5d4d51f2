"""Whether a person is new here, so that the console says what it is, and who works on code.

New is who has no settings of their own, named neither model nor mode, works in a folder without a
`.midstream/`, and was never shown the first screen. That it was shown is kept as a file in the folder
of state. Its lines are the workspaces, by their hashes, in which a person knows of the role that works
on code: they were told there, or chose a mode.
"""

import contextlib
import hashlib
import os
from typing import Final

from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, write_whole
from midstream.config.settings import CURRENT_MODE
from midstream.language.errors import MidstreamError, WorldTrouble

SHOWN: Final = "welcomed"
"""The file in the folder of state that says the first screen was shown."""


def is_new(config: ConfigManager) -> bool:
    """Return whether nothing is set up, and the first screen was never shown."""
    if config.grant is not None or config.is_untrusted:
        return False
    if any(setting.layer != "built-in" for setting in config.explain()):
        return False
    return not (config.user_file.exists() or (config.state_dir / SHOWN).exists())


def remember_welcome(config: ConfigManager) -> None:
    """Keep that the first screen was shown. Where nothing can be written, it comes again."""
    with contextlib.suppress(WorldTrouble):
        write_whole(config.state_dir / SHOWN, b"")


def may_need_coder(config: ConfigManager) -> bool:
    """Return whether the workspace is in a git repository, and nobody chose a mode or was told here."""
    mode = next(setting for setting in config.explain() if setting.key == CURRENT_MODE)
    if config.is_untrusted or mode.layer not in ("built-in", "user"):
        return False
    folders = (config.workspace, *config.workspace.parents)
    if not any((folder / ".git").exists() for folder in folders):
        return False
    try:
        return _line(config) not in _lines(config)
    except MidstreamError:
        return False  # it could be told at every start


def remember_coder(config: ConfigManager) -> None:
    """Keep that a person knows in this workspace of the role that works on code."""
    with contextlib.suppress(MidstreamError):
        lines = _lines(config)
        if _line(config) not in lines:
            text = "".join(f"{line}\n" for line in (*lines, _line(config)))
            write_whole(config.state_dir / SHOWN, text.encode())


def _lines(config: ConfigManager) -> list[str]:
    try:
        return read_capped(config.state_dir / SHOWN).decode("ascii", "replace").splitlines()
    except FileMissing:
        return []


def _line(config: ConfigManager) -> str:
    return hashlib.blake2b(os.fsencode(config.workspace), digest_size=12).hexdigest()
