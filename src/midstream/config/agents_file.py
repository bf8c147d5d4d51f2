"""The words of people that count here: the user's own AGENTS.md, what they had remembered for the folder,
the AGENTS.md of a trusted workspace, and which skills there are."""

import hashlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.config.skills import skills_told
from midstream.config.trust import AGENTS
from midstream.core.guidance import AGENTS_FILE, MAX_GUIDANCE, Source, guidance_from
from midstream.language.errors import MidstreamError
from midstream.language.spec import Guidance
from midstream.safety.sanitize import sanitized

_UNPLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")


def guidance_here(config: ConfigManager) -> tuple[Guidance, ...]:
    """Return what the files say, the user's own first; what is wrong with one is a notice.

    The workspace's is read only as it was trusted, byte for byte.
    """
    found: list[Guidance] = []
    grant = config.grant
    own = config.user_dir / AGENTS_FILE
    remembered = memory_file(config)
    places: list[tuple[Source, Path, Callable[[], bytes]]] = [
        ("user", own, partial(read_capped, own)),
        ("memory", remembered, partial(read_capped, remembered)),
    ]
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
    told = skills_told(config)
    return (*found, told) if told is not None else tuple(found)


def memory_file(config: ConfigManager) -> Path:
    """Return the file of what a person had remembered for this folder. It may not exist.

    It lies with their settings, not in the folder: nobody else's clone can bring one along.
    """
    folder = config.workspace.resolve()
    plain = _UNPLAIN.sub("-", folder.name)[:40] or "root"
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return config.user_dir / "memory" / f"{plain}-{digest}.md"


def remember(config: ConfigManager, words: str) -> Path:
    """Add words to what is remembered for this folder, and return the file. Waits for the disk.

    Raises:
        MidstreamError: the file cannot be read or written; nothing changed.
    """
    path = memory_file(config)
    try:
        before = read_capped(path).decode("utf-8-sig", "replace")
    except FileMissing:
        before = f"# Remembered for {config.workspace}\n\n"
    before += "" if before.endswith("\n") else "\n"
    write_whole(path, f"{before}- {' '.join(sanitized(words).split())}\n".encode())
    return path
