"""`/config`: the settings, where each comes from, and changing one; `/welcome`, `/doctor`."""

from functools import partial
from typing import Final

from midstream.app.commands.command import command, room
from midstream.app.onboarding import welcome_text
from midstream.app.session import Session
from midstream.app.settings_changes import changed
from midstream.app.trust_request import TrustRequest
from midstream.config.hooks import HOOKS, hooks_of, listed
from midstream.config.settings import CURRENT_MODE, FEW_VALUES, LOOKS, MODELS, PERMISSION_MODE
from midstream.config.user_settings import SETTABLE, explained, where
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.system.own_process import columns
from midstream.views.cells import two_columns

KINDS: Final = ("role", "workflow")
_VERBS: Final = ("list", "get", "set", "unset", "edit")


def _keys(session: Session) -> list[tuple[str, str]]:
    said = {s.key: f"{s.value} ({where(s)})" for s in session.config.explain()}
    found = [(key, said.get(key, "")) for key in dict.fromkeys((*said, *SETTABLE))]
    return [*found, ("unset", "remove a setting from your own file")]


def _then(session: Session, before: str) -> list[tuple[str, str]]:
    if before in ("get", "set", "unset"):
        return _keys(session)[:-1]
    key = before.removeprefix("set ").strip()
    if key.partition(".")[0] == MODELS:
        return [(name, "") for name in dict.fromkeys(_models(session))]
    if key == CURRENT_MODE:
        names = [*session.parts.library.roles()], [*session.parts.library.workflows()]
        return [
            (f"{kind}:{name}", "") for kind, of in zip(KINDS, names, strict=True) for name in of
        ]
    return [(value, "") for value in FEW_VALUES.get(key, ())]


@command(
    "config",
    "show the settings and where they come from, or change one",
    arguments="[KEY [VALUE] | unset KEY]",
    complete=_keys,
    then=_then,
)
async def _config(session: Session, argument: str) -> None:
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
        session.ui.say(await in_thread(partial(_listed, session)))
        return
    value = value.strip()
    if verb == "unset":
        session.ui.say(await configure(session, key, None))
    elif verb == "get" or not value:
        if verb == "set":
            raise UserMistake("The value is missing.", hint=f"/config {key} VALUE")
        session.ui.say(explained(session.config, key))
    else:
        session.ui.say(await configure(session, key, value))


def _listed(session: Session) -> str:
    rows = [(s.key, f"{s.value}  ({where(s)})") for s in session.config.explain()]
    rows += [(f"{HOOKS}.{event}", what) for event, what in listed(hooks_of(session.config)[0])]
    return f"{two_columns(rows, width=room())}\n\n{_WAYS}"


_WAYS: Final = "/config KEY VALUE sets one, /config unset KEY takes it out again."


@command("doctor", "check what is there, what is missing and how to fix it")
async def _doctor(session: Session, argument: str) -> None:
    session.ui.say("Checking programs, models and the sandbox ...")
    if session.doctor is None:
        raise UserMistake("/doctor is not available here.", hint="Run midstream doctor in a shell.")
    session.ui.say(await in_thread(partial(session.doctor, columns() - 2)))


@command("web", "show this console's runs in a browser: its address, and as a QR code")
async def _web(session: Session, argument: str) -> None:
    if session.web is None:
        raise UserMistake("/web is not available here.", hint="Run midstream web in a shell.")
    session.parts  # noqa: B018 - what is shown is loaded, or it says so
    session.ui.say(await session.web(columns() - 2))


@command(
    "trust",
    "show this folder's own roles and workflows as they are now, and trust them",
    arguments="[CODE]",
)
async def _trust(session: Session, argument: str) -> None:
    session.trust_request = session.trust_request or TrustRequest(session.config, session.ui)
    await (session.trust_request.agree(argument) if argument else session.trust_request.look())


@command("welcome", "the first screen again: what was found here, what to try")
async def _welcome(session: Session, argument: str) -> None:
    model = session.parts.models.describe() if session.runs.is_loaded else ""
    session.ui.say(await welcome_text(session.config, model, width=columns() - 2))


async def configure(session: Session, key: str, value: str | None) -> str:
    """Do what `changed` does, off the loop; what can count at once does."""
    told = await in_thread(lambda: changed(session.config, key, value))
    if key == PERMISSION_MODE:
        wanted, permits = session.config.value(PERMISSION_MODE), session.parts.permissions
        if permits.mode != wanted:
            permits.switch(wanted)
        return f"{explained(session.config, key)}\nIt is in effect now."
    if (group := key.partition(".")[0]) in LOOKS and session.ui.apply(group, session.config):
        return f"{explained(session.config, key)}\nIt is in effect now."
    return told


def _models(session: Session) -> list[str]:
    return [
        *(name for _, name in session.parts.models.known()),
        *session.parts.models.names(),
    ]
