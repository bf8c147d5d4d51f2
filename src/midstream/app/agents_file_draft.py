"""`/init`: an AGENTS.md for this folder, by a role that reads the code, or a plain one without a model."""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from midstream.app.session import Session
from midstream.codemap.languages import NOT_CODE, language_of
from midstream.config.private_files import way_out
from midstream.config.project_files import about, commands_of
from midstream.core.costs import counted
from midstream.core.guidance import AGENTS_FILE
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.names import Mode
from midstream.language.spec import Role
from midstream.models.endpoints import is_offline
from midstream.system.offloop import in_thread
from midstream.views.cells import clipped, one_line

CODER: Final = "coder"
WRITES: Final = ("write_file", "edit_file")

MAX_ENTRIES: Final = 20_000
_SHOWN: Final = 12
_SKIPPED: Final = frozenset(
    {"node_modules", "target", "dist", "build", "__pycache__", "venv", "vendor", "site-packages"}
)
TRUST_IT: Final = (
    f"New chats follow {AGENTS_FILE} once you have trusted it: midstream asks at its next start, and "
    "`midstream trust` does now."
)

_ASKED: Final = """\
Write an AGENTS.md for this repository: the page that tells a coding agent how to work here.

Look first: the layout and the main parts, the README, what builds and checks it (Makefile, \
pyproject.toml, package.json, CI), some tests, some code. Then write it in plain Markdown, 80 lines at \
most: what this is and where what lies; the commands that build, check and test it, and how one test is \
run, only those you have found; the conventions the code really follows; what one could easily break. \
Nothing that would be true of any repository, no praise."""
_ANEW: Final = "\n\nWrite it to AGENTS.md."
_AGAIN: Final = "\n\nThere is one already: read it, keep what is right, mend what is not."
_MINDED: Final = "\n\nThe user asks for this above all: "


async def write_agents_file(session: Session, note: str) -> None:
    """Have an AGENTS.md written: asked of a role for code, or without a model from what is plain to see.

    Raises:
        UserMistake: without a model, where there is one already; nothing changed.
        WorldTrouble: it cannot be written.
    """
    workspace = session.config.workspace
    is_there = await in_thread(partial(os.path.lexists, workspace / AGENTS_FILE))
    name, _ = await session.parts.models.window("base")
    if is_offline(name):
        if is_there:
            raise UserMistake(
                f"There is an {AGENTS_FILE} already.", hint="With a model, /init improves it."
            )
        text = await in_thread(partial(template_for, workspace))
        await in_thread(partial(_written, workspace / AGENTS_FILE, text))
        session.ui.say(f"Wrote {AGENTS_FILE}, a plain one: no model has read the code.\n\n{text}")
        session.ui.say(TRUST_IT)
        return
    role = _writer(session)
    if (session.switching.mode.kind, session.switching.mode.name) != ("role", role):
        await session.switching.enter(Mode.parse(f"role:{role}"))
    minded = f"{_MINDED}{note}" if note else ""
    await session.input.say(f"{_ASKED}{_AGAIN if is_there else ''}{_ANEW}{minded}", "queue")
    session.ui.say(f"{role} writes it, and asks you before it is saved. {TRUST_IT}")


def _writer(session: Session) -> str:
    """Return the role that writes it: the one at hand if it works on code and may write, else `coder`."""
    roles = session.parts.library.roles()
    mode = session.switching.mode
    if mode.kind == "role" and mode.name in roles and _may_write(roles[mode.name]):
        return mode.name
    if CODER in roles:
        return CODER
    able = [name for name, role in sorted(roles.items()) if _may_write(role)]
    if not able:
        raise UserMistake("No role here may write files.", hint="/roles lists them.")
    return able[0]


def _may_write(role: Role) -> bool:
    return role.agentsFile and any(role.may_use(tool) for tool in WRITES)


def _written(path: Path, text: str) -> None:
    """Write a file that is not there yet; a link that leads nowhere is not followed."""
    try:
        fd = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o644
        )
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise WorldTrouble(
            f"{path.name} cannot be written: {error.strerror or error}.", hint=way_out(error)
        ) from error


# --- a plain one --------------------------------------------------------------------------------


def template_for(folder: Path) -> str:
    """Return an AGENTS.md of what a folder shows without a model: languages, places, commands."""
    names = list(_files(folder))
    languages = Counter(each for each in map(language_of, names) if each not in NOT_CODE)
    top = Counter(name.partition("/")[0] for name in names if "/" in name)
    parts = [f"# {one_line(folder.resolve().name) or 'This repository'}"]
    if said := about(folder):
        parts.append(said)
    if languages:
        listed = ", ".join(f"{language} ({count})" for language, count in languages.most_common(5))
        parts.append(f"Languages, by files: {listed}.")
    if top:
        rows = [
            f"- `{one_line(name)}/` ({counted(count, 'file')})"
            for name, count in top.most_common(_SHOWN)
        ]
        parts.append("## Layout\n\n" + "\n".join(rows))
    commands = list(commands_of(folder))
    rows = [f"- `{clipped(one_line(command), 100)}`" for command in commands[:_SHOWN]]
    found = "\n".join(rows) or "None were found: say here how it is built, checked and tested."
    parts.append(f"## Commands\n\n{found}")
    parts.append(
        "## Conventions\n\nSay here what a newcomer could not guess: style, names, what to test, what "
        "never to touch."
    )
    return "\n\n".join(parts) + "\n"


def _files(folder: Path) -> Iterator[str]:
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > MAX_ENTRIES:
                return
            if not name.startswith("."):
                yield Path(place, name).relative_to(folder).as_posix()
