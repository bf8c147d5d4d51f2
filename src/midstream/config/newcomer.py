"""Whether a person is new here, so that the console says what it is.

New is who has no settings of their own, named neither model nor mode, works in a folder without a
`.midstream/`, and was never shown the first screen. That it was shown is kept as an empty file in
the folder of state.
"""

import contextlib
from typing import Final

from midstream.config.files import write_whole
from midstream.config.manager import ConfigManager
from midstream.core.errors import WorldTrouble

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
