"""Lines with a slash in an editor: commands a person wrote, and those of midstream that fit there."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from midstream.agents import acp_messages as m
from midstream.api.controls import Controls
from midstream.api.run_handle import RunHandle
from midstream.language.errors import UserMistake, did_you_mean
from midstream.safety.sanitize import sanitized
from midstream.views.listing import NO_NAME
from midstream.views.transcript import fenced

_WIDTH: Final = 100

_OWN: Final = {
    "compact": ("Have the model summarise the older turns", "what to keep in mind"),
    "cost": ("What was spent, by agent and model", ""),
    "undo": ("Take back the last turn, its changes of files, too", ""),
    "rename": ("Give this session a name", "NAME"),
}
"""Commands of midstream's own, by name: what each is for, and what stands behind it."""


async def offered(controls: Controls) -> m.AvailableCommandsUpdate:
    """Return the commands an editor may offer."""
    rows = await controls.commands() | _OWN
    return m.AvailableCommandsUpdate(
        available_commands=tuple(
            m.AvailableCommand(
                name=name,
                description=sanitized(summary) or f"your own command {name}",
                input=m.AvailableCommandInput(hint=sanitized(hint)) if hint else None,
            )
            for name, (summary, hint) in rows.items()
        )
    )


async def done(
    line: str,
    controls: Controls,
    run: RunHandle | None,
    *,
    say: Callable[[str], Awaitable[None]],
    undo: Callable[[], Awaitable[None]],
) -> str | None:
    """Do what a line with a slash says; return the text that is to be said instead, None for nothing.

    Raises:
        UserMistake: there is no such command, or it cannot be done now.
        WorldTrouble: what a written command runs may not be run here.
    """
    word, _, argument = line[1:].partition(" ")
    name, argument = word.strip().casefold(), argument.strip()
    if "/" in word:
        return line  # a path
    if name not in _OWN:
        text = await controls.text_of(line)
        if text is None:
            known = (*_OWN, *await controls.commands())
            hint = f"{did_you_mean(name, known)} //TEXT says what begins with a slash."
            raise UserMistake(f"There is no command /{word} here.", hint=hint)
        return text
    if run is None:
        raise UserMistake("Nothing was said here yet.", hint=f"/{name} is for later.")
    match name:
        case "compact":
            await run.compact(argument)
        case "cost":
            await say(await _cost(controls, run.id))
        case "undo":
            await undo()
        case "rename" if not argument:
            raise UserMistake("The name is missing.", hint=f"/rename {NO_NAME} removes it.")
        case "rename":
            await run.rename("" if argument == NO_NAME else argument)
    return None


async def _cost(controls: Controls, id: str) -> str:
    from midstream.app.commands.cost_command import cost_lines

    today = time.time() // 86_400 * 86_400
    lines = cost_lines(await controls.spent(id), own={id}, today=today, width=_WIDTH)
    return fenced(sanitized("\n".join(lines)))
