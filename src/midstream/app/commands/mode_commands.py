"""Commands about the mode: which role is chatted with, which workflow is active."""

from midstream.app.commands.command import Command
from midstream.app.commands.permission_commands import WORDS
from midstream.app.session import Session
from midstream.language.errors import UserMistake
from midstream.language.names import Mode
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
