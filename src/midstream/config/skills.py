"""Skills: folders `skills/NAME/` with a `SKILL.md`, of the user, and of a workspace as it was trusted.

What a skill is for stands in the head of its SKILL.md (`description`); how it is done stands below, and in
files beside it. Agents are told the former, and read the latter with a tool. All of it is words.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.directories import OTHERS_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.private_files import shown_path
from midstream.config.trust import MAX_SKILL_BYTES, Grant, read_beneath
from midstream.core.guidance import marked
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.role_text import head_of
from midstream.language.spec import Guidance
from midstream.safety.sanitize import sanitized

FILE: Final = "SKILL.md"
MAX_SKILLS: Final = 200
"""Skills of one folder that are looked at."""

MAX_DESCRIPTION: Final = 400
MAX_LISTED: Final = 8_000
"""Characters of what agents are told of all skills; of the others only the number."""

_MAX_FILES: Final = 100
_NAME: Final = re.compile(r"\w[\w.-]{0,63}")
_OWN: Final = "skills"


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill: what it is called and is for, and where it stands.

    `within` is its folder, within that of the grant, as trust names it, or within the user's own where
    there is none. `plugin` is whose grant that is, "" where it is the workspace's.
    """

    name: str
    description: str
    within: str
    grant: Grant | None = None
    plugin: str = ""

    @property
    def folder(self) -> str:
        """Return the name of its folder, which that of a plugin's skill may say more than."""
        return self.within.rpartition("/")[2]


def skills(config: ConfigManager) -> dict[str, Skill]:
    """Return every skill by name; a workspace's replaces the user's own of its name, a plugin's none.

    What cannot be read, or does not say what it is for, is a notice. Waits for the disk.
    """
    found: dict[str, Skill] = {}
    for grant, plugin, within in _places(config):
        folder = config.user_dir if grant is None else grant.folder
        path = Path(os.path.normpath(folder / within)) / FILE
        name, where = path.parent.name, shown_path(path)
        if not _NAME.fullmatch(name):
            config.notice(
                f"{where!a} is ignored: a skill's name is letters, digits, -, _ and dots."
            )
            continue
        if grant is None and (path.parent.is_symlink() or path.is_symlink()):
            config.notice(f"{where} is ignored: it is a link, or its folder is.")
            continue
        # Asked for whenever a chat begins: what has not changed is not read again.
        description = config.parsed(path, _described) if grant or path.is_file() else None
        if description is None:
            continue
        if not description:
            config.notice(f"{where} is ignored: its head has no description.")
            continue
        if plugin and name in found:
            name = f"{plugin}:{name}"
        found[name] = Skill(
            name=name, description=description, within=within, grant=grant, plugin=plugin
        )
    return found


def _described(text: str, _file: str) -> str:
    """Return what a skill is for, harmless and on one line; "" where its head does not say."""
    return " ".join(sanitized(head_of(text)[0].get("description", "")).split())[:MAX_DESCRIPTION]


def skills_told(config: ConfigManager) -> Guidance | None:
    """Return the names of all skills and what they are for, as agents are told; None: there are none."""
    lines: list[str] = []
    known = [*skills(config).values()]
    for skill in known:
        line = f"- {skill.name}: {skill.description}"
        if sum(map(len, lines)) + len(line) > MAX_LISTED:
            break
        lines.append(line)
    if len(lines) < len(known):
        lines.append(f"[and {len(known) - len(lines)} more]")
    return Guidance(source="skills", text="\n".join(lines)) if lines else None


def skill_text(config: ConfigManager, name: str, file: str = "") -> str:
    """Return what a skill says, with the names of the files beside it; or one of these files.

    It is sanitized, and marked as words of a file. Waits for the disk.

    Args:
        config: where the skills are.
        name: the skill's.
        file: a file's path within the skill's folder, with slashes; "" for its SKILL.md.

    Raises:
        UserMistake: there is no such skill, the path leads out of it, or the file is not text.
        NotTrusted: the file is not as it was trusted.
        WorldTrouble: it is a link, too large, or cannot be read.
    """
    known = skills(config)
    skill = known.get(name)
    if skill is None:
        raise UserMistake(f"There is no skill {name!r}.", hint=did_you_mean(name, known))
    text = _text(config, skill, file or FILE)
    beside: list[str] = []
    if not file:
        text = head_of(text)[1]
        beside = sorted(set(islice(_beside(config, skill), _MAX_FILES)) - {FILE})
    whose = "of the workspace" if skill.grant else "your user's own"
    if skill.plugin:
        whose = f"of the plugin {skill.plugin}"
    title = f"skill {name}{f', {file}' if file else ''}"
    parts = [marked(sanitized(title), f"{whose}; it allows nothing", sanitized(text).strip())]
    if beside:
        parts.append(f"Files beside it (load_skill with file): {sanitized(', '.join(beside))}")
    return "\n\n".join(parts)


def _places(config: ConfigManager) -> Iterator[tuple[Grant | None, str, str]]:
    """Yield grant, plugin and folder of all that may be a skill, the lowest layer first."""
    try:
        names = sorted(os.listdir(config.user_dir / _OWN))
    except OSError:
        names = []
    yield from ((None, "", f"{_OWN}/{n}") for n in names[:MAX_SKILLS] if not n.startswith("."))
    granted: list[tuple[Grant, str, str]] = []
    if config.grant is not None:
        granted += [(config.grant, "", place) for place in (f"../{OTHERS_FOLDER}/{_OWN}", _OWN)]
    granted += [(grant, plugin, _OWN) for plugin, grant in config.plugins().items()]
    for grant, plugin, place in granted:
        files = (file for file in grant.names(place) if file.endswith(f"/{FILE}"))
        there = (file.removesuffix(f"/{FILE}") for file in files)
        named = (within for within in there if within.rpartition("/")[0] == place)
        yield from ((grant, plugin, within) for within in islice(named, MAX_SKILLS))


def _beside(config: ConfigManager, skill: Skill) -> Iterator[str]:
    """Yield the files of a skill by their paths in it; links are left out."""
    if skill.grant is not None:
        there = skill.grant.names(skill.within)
        yield from (name.removeprefix(f"{skill.within}/") for name in there)
        return
    top = config.user_dir / skill.within
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            path = Path(folder) / name
            if not path.is_symlink():
                yield path.relative_to(top).as_posix()


def _text(config: ConfigManager, skill: Skill, file: str) -> str:
    name = f"{skill.folder}/{file}"
    if skill.grant is not None:
        data = skill.grant.read(f"{skill.within}/{file}")
    else:
        data = read_beneath(config.user_dir / _OWN, name)
    if len(data) > MAX_SKILL_BYTES or b"\0" in data:
        what = "is no text" if b"\0" in data else f"is larger than {MAX_SKILL_BYTES:,} bytes"
        raise UserMistake(f"{name!r} of the skills {what}.", hint="Read another file.")
    return data.decode("utf-8-sig", "replace")
