"""`/config`: the settings, where each comes from, and changing one; `/welcome`, `/doctor`."""

from typing import Final

from midstream.app.commands.command import Command
from midstream.config.settings import CURRENT_MODE, MODELS
from midstream.config.user_settings import FEW_VALUES
from midstream.language.errors import UserMistake
from midstream.runtime.ports import Operator
from midstream.system.own_process import columns
from midstream.views.cells import two_columns

_WIDEST: Final = 120
KINDS: Final = ("role", "workflow")
_VERBS: Final = ("list", "get", "set", "unset", "edit")


async def _config(operator: Operator, argument: str) -> None:
    first, _, rest = argument.partition(" ")
    # As on the command line, too: who has read its help types its words.
    verb, key, value = "", first, rest.strip()
    if first in _VERBS:
        verb = first
        key, _, value = rest.strip().partition(" ")
    if verb == "edit":
        raise UserMistake(
            "The console has the terminal, so no editor can be opened here.",
            hint="Type midstream config edit in another one, or /config KEY VALUE here.",
        )
    if verb == "list" or not key:
        if verb not in ("", "list"):
            raise UserMistake(f"/config {verb} takes a key.", hint="/config lists them.")
        operator.tell(_listed(operator))
        return
    value = value.strip()
    if verb == "unset":
        operator.tell(await operator.configured(key, None))
    elif verb == "get" or not value:
        if verb == "set":
            raise UserMistake("The value is missing.", hint=f"/config {key} VALUE")
        operator.tell(operator.explained(key))
    else:
        operator.tell(await operator.configured(key, value))


def _listed(operator: Operator) -> str:
    rows = [(key, f"{value}  ({where})") for key, value, where in operator.settings()]
    # Two columns are the console's own, before each of its lines.
    width = min(columns() - 2, _WIDEST)
    return f"{two_columns(rows, width=width)}\n\n{_WAYS}"


_WAYS: Final = "/config KEY VALUE sets one, /config unset KEY takes it out again."


async def _doctor(operator: Operator, argument: str) -> None:
    operator.tell("Checking programs, models and the sandbox ...")
    await operator.examine()


async def _trust(operator: Operator, argument: str) -> None:
    await operator.trust(argument)


async def _welcome(operator: Operator, argument: str) -> None:
    await operator.welcome()


def _keys(operator: Operator) -> list[tuple[str, str]]:
    found = {key: f"{value} ({where})" for key, value, where in operator.settings()}
    return [*found.items(), ("unset", "remove a setting from your own file")]


def _then(operator: Operator, before: str) -> list[tuple[str, str]]:
    if before in ("get", "set", "unset"):
        return _keys(operator)[:-1]
    key = before.removeprefix("set ").strip()
    if key.partition(".")[0] == MODELS:
        return [(name, "") for name in dict.fromkeys(_models(operator))]
    if key == CURRENT_MODE:
        names = [*operator.library.roles()], [*operator.library.workflows()]
        return [
            (f"{kind}:{name}", "") for kind, of in zip(KINDS, names, strict=True) for name in of
        ]
    return [(value, "") for value in FEW_VALUES.get(key, ())]


def _models(operator: Operator) -> list[str]:
    return [*(name for _, name in operator.models.known()), *operator.models.names()]


CONFIG_COMMANDS: Final = (
    Command(
        name="config",
        arguments="[KEY [VALUE] | unset KEY]",
        summary="show the settings and where they come from, or change one",
        action=_config,
        complete=_keys,
        then=_then,
    ),
    Command(
        name="doctor",
        summary="check what is there, what is missing and how to fix it",
        action=_doctor,
    ),
    Command(
        name="trust",
        arguments="[CODE]",
        summary="show this folder's own roles and workflows as they are now, and trust them",
        action=_trust,
    ),
    Command(
        name="welcome",
        summary="the first screen again: what was found here, what to try",
        action=_welcome,
    ),
)
