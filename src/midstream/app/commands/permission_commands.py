"""Commands about what agents may do, and which MCP servers they may use."""

import asyncio
from typing import TYPE_CHECKING, Final

from midstream.app.commands.command import command
from midstream.app.session import Session
from midstream.language.errors import UserMistake
from midstream.runtime.ports import Machine
from midstream.safety.rules import in_words, known_rule
from midstream.tools.mcp.approval import Approvals

if TYPE_CHECKING:
    from midstream.tools.permissions import Permissions


WORDS = {
    "plan": "only looks: it changes nothing and runs only a few read-only commands",
    "ask": "asks before it changes a file or runs a command",
    "auto": "changes plain files of the workspace unasked, and runs commands in the sandbox",
    "full": "asks only about protected files; what the rules deny stays denied",
}
"""What each permission mode does, in words."""


CYCLE: Final = ("ask", "auto", "plan")
"""The modes Shift-Tab goes through. None of them lets everything happen."""

_BRIEFLY: Final = {
    "ask": "ask: changes and commands ask first",
    "auto": "auto: edits and sandbox run unasked",
    "plan": "plan: only looks, changes nothing",
}


def without_sandbox(permits: "Permissions") -> str:
    """Return a sentence on `auto` where commands have no whole sandbox, "" elsewhere."""
    if permits.mode != "auto" or permits.sandbox in (None, "full") or permits.is_untrusted:
        return ""
    if permits.sandbox == "partial":
        return (
            "The sandbox here is partial, so in auto every command asks first, as in ask: "
            "midstream doctor --sandbox says what it lacks."
        )
    return (
        "There is no sandbox here, so in auto every command asks first, as in ask: install bubblewrap "
        "(apt-get install bubblewrap), or see midstream doctor --sandbox."
    )


def next_mode(permits: "Permissions") -> str:
    """Go to the next mode of `CYCLE`, from any other to its first; return which it is, in a line.

    Raises:
        UserMistake: the mode cannot be changed, as the workspace is not trusted.
    """
    was_full = permits.mode == "full"
    at = CYCLE.index(permits.mode) if permits.mode in CYCLE else -1
    wanted = CYCLE[(at + 1) % len(CYCLE)]
    permits.switch(wanted)
    if was_full:
        return "ask: full is over until you restart"
    if wanted == "auto" and permits.sandbox is None:
        return "auto: edits happen unasked"
    if wanted == "auto" and permits.sandbox == "none":
        return "auto: edits unasked, commands ask"
    return _BRIEFLY[wanted]


def _completed(session: Session) -> list[tuple[str, str]]:
    granted = _granted(session)
    modes = [(mode, WORDS[mode]) for mode in CYCLE]
    return [*modes, *((f"revoke {number}", text) for number, (_, text) in enumerate(granted, 1))]


@command(
    "permissions",
    "show or choose what may happen unasked, or take a grant back",
    arguments="[ask | auto | plan | revoke NUMBER]",
    complete=_completed,
)
async def _permissions(session: Session, argument: str) -> None:
    word, _, what = argument.partition(" ")
    if word == "revoke" and what.strip():
        await _revoke(session, what.strip())
    elif word == "revoke":
        raise UserMistake(
            "Which grant is to be taken back?",
            hint="/permissions lists them by number, /permissions revoke NUMBER takes one back.",
        )
    elif argument in WORDS:
        session.parts.permissions.switch(argument)
        lacks = without_sandbox(session.parts.permissions)
        does = WORDS[session.parts.permissions.mode].partition(",")[0] if lacks else WORDS[argument]
        session.ui.say(f"From now on midstream {does}. {lacks}".rstrip())
    elif argument:
        raise UserMistake(
            f"/permissions does not know {argument!r}.",
            hint="/permissions ask, auto or plan chooses the permission mode, "
            "/permissions revoke NUMBER takes a grant back.",
        )
    else:
        session.ui.say("\n".join(_lines(session)))


def _lines(session: Session) -> list[str]:
    permits = session.parts.permissions
    if permits.is_untrusted:
        return ["The workspace is not trusted: only its files are read. midstream trust shows it."]
    lines = [
        f"permission mode {permits.mode}: midstream {WORDS[permits.mode]}",
        f"sandbox: {permits.sandbox or 'still being measured'}",
    ]
    rules = permits.rules()
    width = max((len(text) for _, text, _ in rules), default=0)
    if rules:
        lines.append("rules, until they are changed:")
        lines += [
            f"  {kind:<5} {text.ljust(width)}  {_whose(text, file)}" for kind, text, file in rules
        ]
    granted = _granted(session)
    if granted:
        lines.append("granted by you, until the run ends:")
        lines += [
            f"  {number}  {_said(text)}  (run {run.id[:4]}, {run.workflow_name})"
            for number, (machine, text) in enumerate(granted, 1)
            for run in (machine.run,)
        ]
        lines.append("/permissions revoke NUMBER takes one back.")
    else:
        lines.append("nothing is granted for a run.")
    return lines


def _said(grant: str) -> str:
    """Return a grant as a person reads it: a capability, or the name of a tool."""
    return in_words(grant) if ":" in grant else f"the tool {grant}"


def _whose(rule: str, file: str) -> str:
    """Return where a rule stands, and what follows from one that is none."""
    if known_rule(rule) is not None:
        return file
    return f"{file}; it cannot be read: until you fix it, midstream asks about everything"


def _granted(session: Session) -> list[tuple[Machine, str]]:
    living = [machine for machine in session.runs.all() if not machine.run.is_over]
    return [(machine, text) for machine in living for text in machine.run.allowed]


async def _revoke(session: Session, what: str) -> None:
    granted = _granted(session)
    if what.isascii() and what.isdigit() and 1 <= int(what) <= len(granted):
        chosen = [granted[int(what) - 1]]
    else:
        chosen = [each for each in granted if each[1] == what]
    if not chosen:
        raise UserMistake(f"There is no grant {what!r}.", hint="/permissions lists them by number.")
    for machine, text in chosen:
        await machine.revoke(text)
        session.ui.say(f"Taken back: {text}. midstream asks about it again.")


SLOW_S: Final = 1.0
"""How long a server may take to answer before a person is told that it is waited for."""

NONE = "No MCP servers: name them in mcpServers of your application.json."


def _mcp_of(session: Session) -> Approvals:
    if session.parts.mcp is None:
        raise UserMistake(NONE, hint="midstream config edit opens it.")
    return session.parts.mcp


@command(
    "mcp",
    "list MCP servers, approve what one offers, or take that back",
    arguments="[approve | forget] [NAME]",
    complete=lambda _session: [
        ("approve", "look at a server and what it offers"),
        ("forget", "take an approval back"),
    ],
)
async def _mcp(session: Session, argument: str) -> None:
    if session.parts.mcp is None and not argument:
        session.ui.say(NONE)
        return
    mcp = _mcp_of(session)
    match argument.split():
        case []:
            session.ui.say(await mcp.listing())
        case ["approve", name]:
            # A server that is to say what it offers may take its time to start.
            loop = asyncio.get_running_loop()
            patience = loop.call_later(SLOW_S, session.ui.say, f"Waiting for {name} ...")
            try:
                asked = await mcp.ask(name)
            finally:
                patience.cancel()
            words = f"\n\nTo approve exactly this: /mcp approve {name} {asked.code}"
            session.ui.say(f"{asked.text}{words if asked.code else ''}")
        case ["approve", name, code]:
            session.ui.say(await mcp.approve(name, code))
        case ["forget", name]:
            session.ui.say(await mcp.forget(name))
        case _:
            raise UserMistake("/mcp has no such command.", hint="/mcp [approve | forget] NAME")
