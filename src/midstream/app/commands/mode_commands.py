"""Commands about who is spoken to: the mode, its model and tools, a new chat, and leaving."""

from textwrap import fill
from typing import Final

from midstream.app.commands.command import command, room
from midstream.app.commands.permission_commands import WORDS
from midstream.app.session import Session
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import EFFORTS, Effort, Mode
from midstream.language.spec import Role, ToolSpec
from midstream.models.endpoints import with_effort
from midstream.views.cells import two_columns


def _modes(session: Session) -> list[tuple[str, str]]:
    roles = [(f"role:{name}", "chat") for name in sorted(session.parts.library.roles())]
    workflows = sorted(session.parts.library.workflows().items())
    return [*roles, *((f"workflow:{name}", words) for name, words in workflows)]


@command(
    "mode",
    "show or change whom you talk to: role:NAME or workflow:NAME",
    arguments="[TYPE:NAME]",
    complete=_modes,
)
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


def _role_names(session: Session) -> list[tuple[str, str]]:
    return [
        (name, role.description) for name, role in sorted(session.parts.library.roles().items())
    ]


@command("role", "chat with a role", arguments="NAME", complete=_role_names)
async def _role(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which role?", hint="/role NAME; /roles lists them.")
    await session.switching.enter(Mode.parse(f"role:{argument}"))


@command("roles", "list the roles")
async def _roles(session: Session, argument: str) -> None:
    roles = session.parts.library.roles()
    session.ui.say(_table({name: role.description or role.level for name, role in roles.items()}))


def _workflow_names(session: Session) -> list[tuple[str, str]]:
    return [
        *sorted(session.parts.library.workflows().items()),
        ("stop", "end the active workflow"),
    ]


@command(
    "workflow",
    "start a workflow, or end the active one",
    arguments="NAME [input] | stop",
    complete=_workflow_names,
)
async def _workflow(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which workflow?", hint="/workflow NAME [input]; /workflows lists them.")
    name, _, input = argument.partition(" ")
    if name == "stop" and not input:
        await session.switching.stop_workflow()
    else:
        await session.switching.enter(Mode.parse(f"workflow:{name}"), input.strip() or None)


@command("workflows", "list the workflows")
async def _workflows(session: Session, argument: str) -> None:
    found = session.parts.library.workflows()
    way = "\n  /workflow NAME starts one." if found else ""
    session.ui.say(f"{_table(found)}{way}")


def _table(rows: dict[str, str]) -> str:
    if not rows:
        return "There are none."
    return two_columns(sorted(rows.items()), width=room())


DEFAULT: Final = "default"
_SHOWN_ROLES: Final = 4
EFFORT: Final = "--effort"
_WAYS: Final = (
    "/model LEVEL NAME sets one level, /model NAME all of them, "
    f"/model [LEVEL] [NAME] {EFFORT} high how hard they think, "
    f"/model [LEVEL] {DEFAULT} goes back to what the settings name."
)


def _first(session: Session) -> list[tuple[str, str]]:
    levels = [(level, f"now {used}") for level, used, _ in session.parts.models.levels()]
    return [*levels, *_names(session)]


def _second(session: Session, before: str) -> list[tuple[str, str]]:
    words = before.split()
    if words[-1] == EFFORT:
        return [(effort, "how hard it thinks") for effort in EFFORTS]
    if len(words) == 1 and before in _named(session):
        return [*_names(session), (EFFORT, "how hard it thinks")]
    is_model = words[-1] not in (DEFAULT, *EFFORTS) and ":" in words[-1]
    return [(EFFORT, "how hard it thinks")] if is_model else []


@command(
    "model",
    "show which model answers which level, or choose for one or all",
    arguments="[LEVEL] [NAME | default] [--effort high]",
    complete=_first,
    then=_second,
    learn=lambda session: session.parts.models.look_here(),
)
async def _model(session: Session, argument: str) -> None:
    words = argument.split()
    if not words:
        session.ui.say(_summary(session))
        return
    words, effort = _effort_in(words)
    models, chosen = session.parts.models, _meant(session, words, effort)
    # Each is looked at before the first is used: a refusal changes nothing.
    named = dict.fromkeys(name for _, name in chosen if name is not None)
    doubts = dict.fromkeys([await models.doubts(name) for name in named])
    for level, name in chosen:
        models.use(name, level)
    lines = [f"From the next request on:\n{_levels(session)}", *doubts]
    session.ui.say("\n".join(line for line in lines if line))


def _effort_in(words: list[str]) -> tuple[list[str], Effort | None]:
    """Return the words without the effort they end with, and that, None for none.

    Raises:
        UserMistake: it is none.
    """
    if EFFORT in words[-2:]:
        word = words[-1] if words[-2:-1] == [EFFORT] else ""
        if word not in EFFORTS:
            hint = f"{did_you_mean(word, EFFORTS)} {EFFORT} {', '.join(EFFORTS)}.".strip()
            raise UserMistake(f"How hard should it think? {word!r} is no effort.", hint=hint)
        words = [*words[:-2], word]
    effort = next((each for each in EFFORTS if each == words[-1]), None)
    return (words, None) if effort is None else (words[:-1], effort)


def _meant(
    session: Session, words: list[str], effort: Effort | None
) -> list[tuple[str | None, str | None]]:
    """Return the levels (None: all) and the models (None: what the settings name) a line names.

    An effort without a model is for the one each of the levels has.

    Raises:
        UserMistake: it names none.
    """
    used = {level: name for level, name, _ in session.parts.models.levels()}
    if effort is not None and (not words or (len(words) == 1 and words[0] in used)):
        return [(level, with_effort(used[level], effort)) for level in words or used]
    level, name = _named_by(words, [*used])
    if effort is not None and name is None:
        hint = f"/model {EFFORT} {effort}, or name a model before it."
        raise UserMistake(f"{DEFAULT} takes the effort of the settings, too.", hint=hint)
    return [(level, name if name is None or effort is None else with_effort(name, effort))]


def _named_by(words: list[str], levels: list[str]) -> tuple[str | None, str | None]:
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
    offered = [name for label, name in session.parts.models.known() if label not in _named(session)]
    others = f"Also: {', '.join(offered)}." if offered else ""
    width = room()
    text = [fill(line, width) for line in (others, _WAYS) if line]
    return "\n".join([_levels(session), *text])


def _named(session: Session) -> set[str]:
    return {level for level, _, _ in session.parts.models.levels()}


def _levels(session: Session) -> str:
    """Return a line for each level: what answers, what the settings say instead, who uses it."""
    roles = session.parts.library.roles()
    rows: list[tuple[str, str]] = []
    for level, used, setting in session.parts.models.levels():
        own = [_with_its(role, name) for name, role in sorted(roles.items()) if role.level == level]
        more = f" and {len(own) - _SHOWN_ROLES} more" if len(own) > _SHOWN_ROLES else ""
        whose = f" · {', '.join(own[:_SHOWN_ROLES])}{more}" if own else ""
        instead = "" if used == setting else f" (the settings name {setting})"
        rows.append((level, f"{used}{instead}{whose}"))
    return two_columns(rows, width=room())


def _with_its(role: Role, name: str) -> str:
    return name if role.effort is None else f"{name} ({role.effort})"


def _names(session: Session) -> list[tuple[str, str]]:
    labels: dict[str, list[str]] = {}
    for label, name in session.parts.models.known():
        labels.setdefault(name, []).append(label)
    others = [(name, "") for name in session.parts.models.names() if name not in labels]
    named = [(name, ", ".join(found)) for name, found in labels.items()]
    return [*named, (DEFAULT, "what the settings name"), *others]


@command("exit", "leave; runs are kept", aliases=("quit",))
async def _exit(session: Session, argument: str) -> None:
    session.is_leaving = True


@command("clear", "begin a new chat; /sessions goes back to this one")
async def _clear(session: Session, argument: str) -> None:
    await session.switching.clear()


@command("tools", "list the tools agents may use")
async def _tools(session: Session, argument: str) -> None:
    rows = [
        (name, f"{_freedom(spec)} · {_first_line(spec.description)}")
        for name, spec in sorted(session.parts.tools.items())
    ]
    session.ui.say(two_columns(rows, width=room()))


def _freedom(spec: ToolSpec) -> str:
    return "asks first" if spec.needs_approval else spec.effect


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
