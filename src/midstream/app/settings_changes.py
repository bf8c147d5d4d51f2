"""`/config` with a key: a setting of the user's own, looked at or changed while the console runs."""

import os

from midstream.config.manager import ConfigManager
from midstream.config.settings import CURRENT_MODE, MODELS
from midstream.config.user_settings import effect, explained, set_own, unset_own
from midstream.language.names import Mode
from midstream.models.endpoints import name_and_effort, require_name


def changed(config: ConfigManager, key: str, value: str | None) -> str:
    """Set a setting in the user's file, None: take it out; return what is true now. Waits for the disk.

    Raises:
        UserMistake: it cannot be, with the reason; the file is as it was.
        WorldTrouble: the file cannot be read or written.
    """
    doubts = "" if value is None else check_name(config, key, value)
    now = unset_own(config, key) if value is None else set_own(config, key, value)
    if value is None and not now:
        return f"{key} is not set any more. It takes effect at the next start."
    told = (explained(config, key), effect(config, key), doubts)
    return "\n".join(line for line in told if line)


def check_name(config: ConfigManager, key: str, value: str) -> str:
    """Return what speaks against a model's name, if its provider and a mode's role or workflow exist.

    Raises:
        UserMistake: it has not, or does not; the hint names the nearest.
    """
    plain = value.strip().strip('"')
    if key == CURRENT_MODE:
        config.check_mode(Mode.parse(plain))
    if key.partition(".")[0] != MODELS or not plain:
        return ""
    # It reads a long list.
    from midstream.models.prices import doubts_about

    return doubts_about(name_and_effort(require_name(plain))[0], os.environ)
