"""Commands about who is spoken to: the mode, its model and tools, a new chat, and leaving."""

from textwrap import fill
from typing import Final

from midstream.app.commands.command import Command
from midstream.app.commands.config_command import CONFIG_COMMANDS
from midstream.app.commands.permission_commands import WORDS
from midstream.app.session import Session
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Mode
from midstream.language.spec import ToolSpec
from midstream.system.own_process import columns
from midstream.views.cells import two_columns

WIDEST = 120
"""Columns a table takes at most."""


async def _mode(session: Session, argument: str) -> None:
    if not argument:
        session.ui.say(str(session.switching.mode))
    elif argument in WORDS:
        raise UserMistake(
            f"{argument} is a permission mode; /mode is for the role or workflow you talk to.",
            hint=f"/permissions {argument} chooses it; Shift-Tab goes through them.",
        )
    else:
        await session.switching.enter(Mode.parse(argument))


async def _role(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which role?", hint="/role NAME; /roles lists them.")
    await session.switching.enter(Mode.parse(f"role:{argument}"))


async def _roles(session: Session, argument: str) -> None:
    roles = session.equipment.library.roles()
    session.ui.say(_table({name: role.description or role.level for name, role in roles.items()}))


async def _workflow(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which workflow?", hint="/workflow NAME [input]; /workflows lists them.")
    name, _, input = argument.partition(" ")
    if name == "stop" and not input:
        await session.switching.stop_workflow()
    else:
        await session.switching.enter(Mode.parse(f"workflow:{name}"), input.strip() or None)


async def _workflows(session: Session, argument: str) -> None:
    found = session.equipment.library.workflows()
    way = "\n  /workflow NAME starts one." if found else ""
    session.ui.say(f"{_table(found)}{way}")


def _table(rows: dict[str, str]) -> str:
    if not rows:
        return "There are none."
    # Two columns are the console's own, before each of its lines.
    return two_columns(sorted(rows.items()), width=min(columns(), WIDEST) - 2)


def _modes(session: Session) -> list[tuple[str, str]]:
    roles = [(f"role:{name}", "chat") for name in sorted(session.equipment.library.roles())]
    workflows = sorted(session.equipment.library.workflows().items())
    return [*roles, *((f"workflow:{name}", words) for name, words in workflows)]


def _role_names(session: Session) -> list[tuple[str, str]]:
    return [
        (name, role.description) for name, role in sorted(session.equipment.library.roles().items())
    ]


def _workflow_names(session: Session) -> list[tuple[str, str]]:
    return [
        *sorted(session.equipment.library.workflows().items()),
        ("stop", "end the active workflow"),
    ]


MODE_COMMANDS = (
    Command(
        name="mode",
        arguments="[TYPE:NAME]",
        summary="show or change whom you talk to: role:NAME or workflow:NAME",
        action=_mode,
        complete=_modes,
    ),
    Command(
        name="role",
        arguments="NAME",
        summary="chat with a role",
        action=_role,
        complete=_role_names,
    ),
    Command(name="roles", summary="list the roles", action=_roles),
    Command(
        name="workflow",
        arguments="NAME [input] | stop",
        summary="start a workflow, or end the active one",
        action=_workflow,
        complete=_workflow_names,
    ),
    Command(name="workflows", summary="list the workflows", action=_workflows),
)


DEFAULT: Final = "default"
_SHOWN_ROLES: Final = 4
_WAYS: Final = (
    "/model LEVEL NAME sets one level, /model NAME all of them, "
    f"/model [LEVEL] {DEFAULT} goes back to what the settings name."
)


async def _model(session: Session, argument: str) -> None:
    words = argument.split()
    if not words:
        session.ui.say(_summary(session))
        return
    level, name = _meant(session, words)
    doubts = "" if name is None else await session.equipment.models.doubts(name)
    session.equipment.models.use(name, level)
    lines = [f"From the next request on:\n{_levels(session)}", doubts]
    session.ui.say("\n".join(line for line in lines if line))


def _meant(session: Session, words: list[str]) -> tuple[str | None, str | None]:
    """Return the level (None: all) and the model (None: what the settings name) a line names.

    Raises:
        UserMistake: it names none.
    """
    levels = [level for level, _, _ in session.equipment.models.levels()]
    if len(words) > 2:
        raise UserMistake("These are too many words: /model takes a level and a model.", hint=_WAYS)
    if len(words) == 2 and words[0] not in levels:
        hint = did_you_mean(words[0], levels)
        raise UserMistake(f"There is no level {words[0]!r} of models.", hint=hint)
    if len(words) == 1 and words[0] in levels:
        hint = f"/model {words[0]} NAME, such as /model {words[0]} openai:gpt-5."
        raise UserMistake(f"Which model should answer {words[0]}?", hint=hint)
    level = words[0] if len(words) == 2 else None
    return level, None if words[-1] == DEFAULT else words[-1]


def _summary(session: Session) -> str:
    offered = [
        name for label, name in session.equipment.models.known() if label not in _named(session)
    ]
    others = f"Also: {', '.join(offered)}." if offered else ""
    width = _width()
    text = [fill(line, width) for line in (others, _WAYS) if line]
    return "\n".join([_levels(session), *text])


def _named(session: Session) -> set[str]:
    return {level for level, _, _ in session.equipment.models.levels()}


def _levels(session: Session) -> str:
    """Return a line for each level: what answers, what the settings say instead, who uses it."""
    roles = session.equipment.library.roles()
    rows: list[tuple[str, str]] = []
    for level, used, setting in session.equipment.models.levels():
        own = [name for name, role in sorted(roles.items()) if role.level == level]
        more = f" and {len(own) - _SHOWN_ROLES} more" if len(own) > _SHOWN_ROLES else ""
        whose = f" · {', '.join(own[:_SHOWN_ROLES])}{more}" if own else ""
        instead = "" if used == setting else f" (the settings name {setting})"
        rows.append((level, f"{used}{instead}{whose}"))
    return two_columns(rows, width=_width())


def _width() -> int:
    # Two columns are the console's own, before each of its lines.
    return max(20, min(columns(), WIDEST) - 2)


def _first(session: Session) -> list[tuple[str, str]]:
    levels = [(level, f"now {used}") for level, used, _ in session.equipment.models.levels()]
    return [*levels, *_names(session)]


def _second(session: Session, before: str) -> list[tuple[str, str]]:
    return _names(session) if before in _named(session) else []


async def _learn(session: Session) -> None:
    await session.equipment.models.look_here()


def _names(session: Session) -> list[tuple[str, str]]:
    labels: dict[str, list[str]] = {}
    for label, name in session.equipment.models.known():
        labels.setdefault(name, []).append(label)
    others = [(name, "") for name in session.equipment.models.names() if name not in labels]
    named = [(name, ", ".join(found)) for name, found in labels.items()]
    return [*named, (DEFAULT, "what the settings name"), *others]


MODEL_COMMAND: Final = Command(
    name="model",
    arguments="[LEVEL] [NAME | default]",
    summary="show which model answers which level, or choose for one or all",
    action=_model,
    complete=_first,
    then=_second,
    learn=_learn,
)


async def _exit(session: Session, argument: str) -> None:
    session.is_leaving = True


async def _clear(session: Session, argument: str) -> None:
    await session.switching.clear()


async def _tools(session: Session, argument: str) -> None:
    rows = [
        (name, f"{_freedom(spec)} · {_first_line(spec.description)}")
        for name, spec in sorted(session.equipment.tools.items())
    ]
    session.ui.say(two_columns(rows, width=min(columns(), WIDEST) - 2))


def _freedom(spec: ToolSpec) -> str:
    return "asks first" if spec.needs_approval else spec.effect


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


SESSION_COMMANDS = (
    Command(name="exit", summary="leave; runs are kept", action=_exit, aliases=("quit",)),
    Command(
        name="clear", summary="begin a new chat; /sessions goes back to this one", action=_clear
    ),
    MODEL_COMMAND,
    Command(name="tools", summary="list the tools agents may use", action=_tools),
    *CONFIG_COMMANDS,
)
