"""The words of people that count here: the user's own AGENTS.md, what they had remembered for the folder,
the AGENTS.md of a trusted workspace, and which skills there are."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.config.skills import skills_told
from midstream.config.trust import AGENTS, MAX_DEPTH, agents_file_in, is_below
from midstream.core.guidance import (
    AGENTS_FILE,
    MAX_GUIDANCE,
    Source,
    folder_words,
    guidance_from,
)
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


def words_below(config: ConfigManager, paths: Iterable[str]) -> dict[str, str]:
    """Return what is said where work goes on: by the path of each AGENTS.md in the folders on the way to
    these paths, the outermost first, what a model is told. "" for one that is not trusted as it is.

    Waits for the disk. The root's own is not among them.
    """
    found: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        if {"", ".", "..", "~"} & {*parts}:
            continue  # it leads out of the workspace, or is its root
        for end in range(1, min(len(parts), MAX_DEPTH) + 1):
            folder = "/".join(parts[:end])
            file = f"{folder}/{AGENTS_FILE}"
            if file in found or file == path or not is_below(name := agents_file_in(folder)):
                continue
            if (said := _below(config, name, file)) is not None:
                found[file] = said
    return found


def _below(config: ConfigManager, name: str, file: str) -> str | None:
    """Return what a folder's AGENTS.md says, "" where it may not be read, None where there is none."""
    grant = config.grant
    if grant is None or name not in grant.files:
        return "" if os.path.lexists(config.workspace / file) else None
    try:
        return folder_words(file, grant.read(name).decode("utf-8-sig")) or None
    except FileMissing:
        return None
    except (UnicodeDecodeError, MidstreamError):
        return ""


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
