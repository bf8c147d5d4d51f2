"""The chats of this folder: finding one again, going on with it, its name, its older turns.

A chat is a run that is never over by itself, so going on with one of yesterday is resuming a run. What
is here finds it by its number in the list, its name, its words or the beginning of its id.
"""

import contextlib
import time
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from midstream.app.background_runs import Background
from midstream.app.full_window import SUMMARISES
from midstream.app.run_sentences import after_its_end
from midstream.app.switching import Switching
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import Machine
from midstream.runtime.storage import KeptRun
from midstream.system.own_process import columns
from midstream.views.cells import one_line
from midstream.views.listing import (
    ACTIVE,
    MAX_NAME,
    NO_NAME,
    Standing,
    Summary,
    chat_rows,
    named_like,
    summarised,
    title_of,
)

SHOWN_CHATS = 20
"""Chats that are listed, those that were written last."""

GOING: Final[tuple[Standing, ...]] = (*ACTIVE, "finished", "failed")
STOPPED: Final[tuple[Standing, ...]] = ("stopped",)
"""How a chat stands that is listed: what /undo and /redo have left is stopped, and a copy goes on."""

CHAT = "role:"
"""How the name of every chat's workflow begins."""

CHOOSES = "chooses a chat"
"""What a line does while one is to be chosen."""

ESC_CHOOSES = "↑↓ · Esc: a new one"
"""And what keys do."""


class GoesOn(msgspec.Struct, frozen=True, kw_only=True):
    """With which chat a console begins: the newest, or `which`; "" is chosen from a list."""

    which: str = ""
    is_newest: bool = False

    @property
    def is_from_list(self) -> bool:
        """Return whether a person chooses from all of them."""
        return not (self.which or self.is_newest)


class Chats:
    """The chats of a workspace. What cannot be done raises `UserMistake`, unchanged.

    Args:
        switching: what lines go to.
        background: the runs of the folder, wherever they live.
        is_attended: a person types here; chats of pipes and of `midstream chat` are then left out.
    """

    def __init__(
        self, switching: Switching, background: Background, *, is_attended: bool = True
    ) -> None:
        self._switching = switching
        self._runs = switching.runs
        self._ui = switching.ui
        self._background = background
        self._is_attended = is_attended
        self._listed: list[KeptRun] = []

    # --- the list -------------------------------------------------------------------------------

    async def lines(self) -> list[str]:
        """Return the chats of the folder, the newest first, numbered from 1, the active one marked."""
        chats = await self._chats()
        stopped = await self._newest(STOPPED, 1)
        if not chats and not stopped:
            return ["No chat was kept in this folder yet."]
        active = self._switching.active()
        here = {machine.run.id for machine in self._runs.own() if not machine.is_closed}
        width = columns() - 2
        now = time.time()
        lines: list[str] = []
        for number, kept in enumerate(chats[:SHOWN_CHATS], 1):
            lines += chat_rows(
                number,
                self._runs.short(kept.id),
                kept.summary,
                is_active=active is not None and active.run.id == kept.id,
                where=_where(kept, is_here=kept.id in here),
                now=now,
                width=width,
            )
        others = ["older"] * (len(chats) > SHOWN_CHATS) + ["stopped"] * bool(stopped)
        if others:
            lines.append(f"There are {' and '.join(others)} ones: midstream runs lists them.")
        return lines

    def names(self) -> list[tuple[str, str]]:
        """Return (name or number, description) pairs of the chats listed last, ids before that."""
        if not self._listed:  # No number is known yet.
            return [pair for pair in self._background.names() if pair[1].startswith(CHAT)]
        return [
            (kept.summary.name or str(number), title_of(kept.summary))
            for number, kept in enumerate(self._listed[:SHOWN_CHATS], 1)
        ]

    async def is_name(self, text: str) -> bool:
        """Return whether a run of the workspace is called so."""
        return await self._called(text) is not None

    async def _called(self, name: str, *, but: str = "") -> KeptRun | None:
        """Return a run of the workspace that is called so, but not the run `but`."""
        for kept in await self._runs.matching(name) if name else ():
            if kept.summary.name.casefold() == name.casefold() and kept.id != but:
                return kept
        return None

    async def _chats(self) -> list[KeptRun]:
        """Return the chats that were written last: those that are listed, and one more."""
        await self._runs.listed()
        newest = await self._newest(GOING, SHOWN_CHATS + 1)
        self._listed = [await self._with_words(kept) for kept in newest]
        return self._listed

    async def _newest(self, status: Collection[Standing], limit: int) -> list[KeptRun]:
        found: list[KeptRun] = []
        async for kept in self._runs.walk(kind="chat", status=status):
            if self._is_listed(kept):
                found.append(kept)
            if len(found) == limit:
                break
        return found

    def _is_listed(self, kept: KeptRun) -> bool:
        # A person looks for what they have said: a script's chats are in `midstream runs`.
        is_chat = kept.summary.kind == "chat"
        return is_chat and not (self._is_attended and kept.summary.is_unattended)

    async def _with_words(self, kept: KeptRun) -> KeptRun:
        """Return a chat with its first words, which an older version has not listed with it."""
        if kept.summary.first or kept.damaged:
            return kept
        summary = Summary()
        with contextlib.suppress(MidstreamError):
            for envelope in await self._runs.parts.store.read(kept.id):
                summary = summarised(summary, envelope)
            return msgspec.structs.replace(kept, summary=summary)
        return kept

    # --- going there ----------------------------------------------------------------------------

    async def go(self, which: str) -> None:
        """Go on with a chat: by its number in the list, its name, or the beginning of its id."""
        # A number is meant as it was shown, whatever has been said since.
        is_shown = _is_number(which) and bool(self._listed)
        listed = self._listed if is_shown else await self._chats()
        await self._go(await self._found(which, listed[:SHOWN_CHATS]))

    async def newest(self, role: str = "") -> bool:
        """Go on with the newest chat that can go on here; False: there is none.

        Args:
            role: only those with this role.

        Raises:
            UserMistake: it cannot go on as it is, such as for a role that has changed.
        """
        async for kept in self._runs.walk(kind="chat", status=ACTIVE):
            is_ours = self._is_listed(kept) and not (kept.is_foreign or kept.damaged)
            is_wanted = is_ours and role in ("", kept.summary.workflow.removeprefix("role:"))
            if is_wanted and not await self._background.owner(kept):
                await self._go(kept)
                return True
        return False

    async def elsewhere(self, role: str = "") -> str:
        """Return what to say of the newest chat another console has open, "" when none has."""
        async for kept in self._runs.walk(kind="chat", status=GOING):
            if (
                self._is_listed(kept)
                and kept.owner
                and role in ("", kept.summary.workflow.removeprefix("role:"))
            ):
                short = self._runs.short(kept.id)
                title = title_of(kept.summary)
                return f"“{title}” is open in another console (/attach {short} joins it)"
        return ""

    async def _go(self, kept: KeptRun) -> None:
        active = self._switching.active()
        if active is not None and active.run.id == kept.id and not active.is_closed:
            raise UserMistake("You are there already.", hint="/sessions lists the others.")
        if kept.damaged:
            raise UserMistake(f"That chat is damaged: {kept.damaged}.", hint="midstream runs")
        if kept.summary.is_over:
            raise UserMistake(
                f"That chat has ended ({kept.summary.status}).", hint=after_its_end(kept.id)
            )
        if await self._background.owner(kept):
            await self._background.attach(kept.id)
        else:
            await self._background.resume(kept.id)

    async def _found(self, which: str, shown: Sequence[KeptRun]) -> KeptRun:
        """Return the chat that is meant: by number, name, or the beginning of its id.

        A number of the list is that one, even where an id begins so: a longer beginning names it.

        Raises:
            UserMistake: none is, or several are.
        """
        if _is_number(which) and 1 <= int(which) <= len(shown):
            return shown[int(which) - 1]
        wanted = which.casefold()
        matching = await self._runs.matching(wanted)
        chats = [kept for kept in matching if self._is_listed(kept)]
        ids = named_like(which, [(kept.id, kept.summary.name) for kept in chats])
        ids = ids or [kept.id for kept in chats if kept.id.startswith(wanted)]
        if len(ids) == 1:
            return next(kept for kept in chats if kept.id == ids[0])
        if ids:
            some = ", ".join(self._runs.short(id) for id in ids[:5])
            raise UserMistake(f"Several chats match {which!r}: {some}.", hint="Type more.")
        hint = "/sessions lists them."
        if _is_number(which) and shown:
            hint = f"{hint} 1 to {len(shown)} are numbers in that list; others start an id."
        raise UserMistake(f"No chat of this folder matches {which!r}.", hint=hint)

    # --- at the start ---------------------------------------------------------------------------

    async def begin(self, goes_on: GoesOn | None, role: str = "") -> bool:
        """Begin with an earlier chat, if a person asked for that; False: there is none to go on with.

        Args:
            goes_on: with which.
            role: the newest is the newest with this role.
        """
        if goes_on is None:
            return False
        try:
            if goes_on.is_newest:
                if await self.newest(role):
                    return True
                whose = f" with {role}" if role else ""
                other = await self.elsewhere(role)
                why = other or f"There is no earlier chat{whose} in this folder"
                self._ui.say(f"{why}: a new {'chat' if other else 'one'} begins.", kind="note")
                return False
            if goes_on.is_from_list:
                await self.offer()
                return False
            await self.go(goes_on.which)
        except MidstreamError as error:
            self._ui.say(str(error), kind="error")
            return False
        return True

    async def offer(self) -> bool:
        """Show the chats and let the next line choose one; False: there is none to choose."""
        if not await self._chats():
            self._ui.say("No chat was kept in this folder yet.", kind="note")
            return False
        self._ui.say("\n".join(await self.lines()))
        self._ui.say(
            "Type the number of a chat, its name or its id. Esc: none, a new one begins.",
            kind="note",
        )
        self._switching.offered_chats = min(len(self._listed), SHOWN_CHATS)
        return True

    def choose_none(self) -> None:
        """Let lines go where they go without a choice."""
        if self._switching.offered_chats:
            self._switching.offered_chats = 0
            self._ui.say("Your next line begins a new chat.", kind="note")
            self._ui.refresh()

    # --- the active chat ------------------------------------------------------------------------

    async def rename(self, name: str) -> None:
        """Give the active run a name; "-" takes it away, "" says which it is."""
        machine = self._active()
        name = one_line(name)
        if name in ("", NO_NAME) and not machine.run.name:
            raise UserMistake("This one has no name yet.", hint="/rename NAME gives it one.")
        if not name:
            ways = f"/rename NAME changes that, /rename {NO_NAME} removes it."
            self._ui.say(f"It is called “{machine.run.name}”: {ways}", kind="note")
            return
        if name == NO_NAME:
            await machine.rename("")
            return
        if len(name) > MAX_NAME:
            raise UserMistake(
                f"A name has at most {MAX_NAME} characters, this one {len(name)}.",
                hint="Choose a shorter one.",
            )
        if name.isdigit():
            raise UserMistake(
                "A name of only digits would be read as a number in the list.",
                hint="Add a letter to it.",
            )
        taken = await self._called(name, but=machine.run.id)
        if taken is not None:
            short = self._runs.short(taken.id)
            raise UserMistake(
                f"The run {short} is called {taken.summary.name!r} already.",
                hint="Choose another name.",
            )
        await machine.rename(name)

    async def compact(self, note: str) -> None:
        """Have the older turns of the active run summarised; returns when that has begun."""
        await self._active().compact(note)
        self._ui.say(SUMMARISES, kind="note")
        self._ui.refresh()

    def _active(self) -> Machine:
        machine = self._switching.active()
        if machine is None:
            raise UserMistake("Nothing has been said here yet.", hint="Say something first.")
        return machine


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _where(kept: KeptRun, *, is_here: bool) -> str:
    """Return what a person should know of where a chat is, "" for one that is simply kept."""
    if kept.damaged:
        return "damaged"
    if kept.summary.is_over:
        return kept.summary.status
    if kept.is_foreign:
        return "imported"
    if kept.owner:
        return "in another console"
    if kept.summary.asking:
        return "asks you"
    if is_here:
        return "open here"
    if kept.cut_work:
        return "cut off"
    return "" if kept.summary.awaits_input else "left in mid-turn"
