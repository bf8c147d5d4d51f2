"""The AGENTS.md files that count here: the user's own, and that of a trusted workspace."""

from functools import partial

from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path
from midstream.config.trust import AGENTS
from midstream.core.guidance import AGENTS_FILE, MAX_GUIDANCE, guidance_from
from midstream.language.errors import MidstreamError
from midstream.language.spec import Guidance


def guidance_here(config: ConfigManager) -> tuple[Guidance, ...]:
    """Return what the files say, the user's own first; what is wrong with one is a notice.

    The workspace's is read only as it was trusted, byte for byte.
    """
    found: list[Guidance] = []
    grant = config.grant
    own = config.user_dir / AGENTS_FILE
    places = [("user", own, partial(read_capped, own))]
    if grant is not None and AGENTS in grant.files:
        places.append(("workspace", config.workspace / AGENTS_FILE, partial(grant.read, AGENTS)))
    for source, path, read in places:
        try:
            text = read().decode("utf-8-sig")
        except FileMissing:
            continue
        except (UnicodeDecodeError, MidstreamError) as error:
            config.notice_unread(path, error, so="not read")
            continue
        if len(text) > MAX_GUIDANCE:
            left = f"{len(text) - MAX_GUIDANCE:,} characters"
            config.notice(f"{shown_path(path)} is long: its last {left} are not sent to models.")
        guidance = guidance_from(text, source=source)
        if guidance is not None:
            found.append(guidance)
    return tuple(found)
