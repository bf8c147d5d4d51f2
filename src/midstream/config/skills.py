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
from midstream.config.manager import ConfigManager, Layer
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
_PLACES: Final = (f"../{OTHERS_FOLDER}/skills", "skills")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill: its folder's name, what it is for, and where it stands.

    `place` is the folder of skills within `.midstream`, as trust names it; "" for one of the user's own.
    `plugin` is whose `.midstream` that is, "" where it is the workspace's.
    """

    name: str
    description: str
    layer: Layer
    place: str = ""
    plugin: str = ""

    @property
    def folder(self) -> str:
        """Return the name of its folder, which that of a plugin's skill may say more than."""
        return self.name.rpartition(":")[2]


def skills(config: ConfigManager) -> dict[str, Skill]:
    """Return every skill by name; a workspace's replaces the user's own of its name, a plugin's none.

    What cannot be read, or does not say what it is for, is a notice. Waits for the disk.
    """
    found: dict[str, Skill] = {}
    for layer, place, plugin, name in _named(config):
        path = _folder(config, place, plugin) / name / FILE
        where = shown_path(path)
        if not _NAME.fullmatch(name):
            config.notice(
                f"{where!a} is ignored: a skill's name is letters, digits, -, _ and dots."
            )
            continue
        if not place and (path.parent.is_symlink() or path.is_symlink()):
            config.notice(f"{where} is ignored: it is a link, or its folder is.")
            continue
        # Asked for whenever a chat begins: what has not changed is not read again.
        description = config.parsed(path, _described) if place or path.is_file() else None
        if description is None:
            continue
        if not description:
            config.notice(f"{where} is ignored: its head has no description.")
            continue
        if plugin and name in found:
            name = f"{plugin}:{name}"
        found[name] = Skill(
            name=name, description=description, layer=layer, place=place, plugin=plugin
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
    text = _text(config, skill, f"{skill.folder}/{file or FILE}")
    beside: list[str] = []
    if not file:
        text = head_of(text)[1]
        beside = sorted(set(islice(_beside(config, skill), _MAX_FILES)) - {FILE})
    whose = "of the workspace" if skill.place else "your user's own"
    if skill.plugin:
        whose = f"of the plugin {skill.plugin}"
    title = f"skill {name}{f', {file}' if file else ''}"
    parts = [marked(sanitized(title), f"{whose}; it allows nothing", sanitized(text).strip())]
    if beside:
        parts.append(f"Files beside it (load_skill with file): {sanitized(', '.join(beside))}")
    return "\n\n".join(parts)


def _folder(config: ConfigManager, place: str, plugin: str = "") -> Path:
    if plugin:
        return config.plugins()[plugin].folder / place
    if not place:
        return config.user_dir / "skills"
    return Path(os.path.normpath(config.workspace / ".midstream" / place))


def _grant(config: ConfigManager, plugin: str) -> Grant:
    grant = config.plugins()[plugin] if plugin else config.grant
    assert grant is not None
    return grant


def _named(config: ConfigManager) -> Iterator[tuple[Layer, str, str, str]]:
    """Yield layer, place, plugin and name of all that may be a skill, the lowest layer first."""
    try:
        names = sorted(os.listdir(_folder(config, "")))
    except OSError:
        names = []
    yield from (("user", "", "", name) for name in names[:MAX_SKILLS] if not name.startswith("."))
    granted: list[tuple[Layer, str, str]] = []
    if config.grant is not None:
        granted += [("workspace", place, "") for place in _PLACES]
    granted += [("plugin", _PLACES[-1], plugin) for plugin in config.plugins()]
    for layer, place, plugin in granted:
        files = (n.removeprefix(f"{place}/") for n in _grant(config, plugin).names(place))
        there = (file.removesuffix(f"/{FILE}") for file in files if file.endswith(f"/{FILE}"))
        named = (name for name in there if "/" not in name)
        yield from ((layer, place, plugin, name) for name in islice(named, MAX_SKILLS))


def _beside(config: ConfigManager, skill: Skill) -> Iterator[str]:
    """Yield the files of a skill by their paths in it; links are left out."""
    if skill.place:
        within = f"{skill.place}/{skill.folder}"
        there = _grant(config, skill.plugin).names(within)
        yield from (name.removeprefix(f"{within}/") for name in there)
        return
    top = _folder(config, "") / skill.folder
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            path = Path(folder) / name
            if not path.is_symlink():
                yield path.relative_to(top).as_posix()


def _text(config: ConfigManager, skill: Skill, name: str) -> str:
    if skill.place:
        data = _grant(config, skill.plugin).read(f"{skill.place}/{name}")
    else:
        data = read_beneath(_folder(config, ""), name)
    if len(data) > MAX_SKILL_BYTES or b"\0" in data:
        what = "is no text" if b"\0" in data else f"is larger than {MAX_SKILL_BYTES:,} bytes"
        raise UserMistake(f"{name!r} of the skills {what}.", hint="Read another file.")
    return data.decode("utf-8-sig", "replace")
