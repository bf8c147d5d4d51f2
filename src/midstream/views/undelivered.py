"""Lines that were taken and not yet delivered: what each of them waits for, in words. Pure."""

import msgspec

from midstream.core.routing import as_typed, branch_at
from midstream.core.run import InputRecord, Run


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A line that waits. `text` is as it was typed, with the branch it is for before it.

    `fate` says what becomes of it, such as "waits until review is done", `brief` the same in two or
    three words for a narrow screen. `can_be_withdrawn`: nothing has been done about it yet.
    """

    id: str
    text: str
    fate: str
    brief: str
    can_be_withdrawn: bool = True


def waiting(run: Run) -> tuple[Waiting, ...]:
    """Return the lines that wait, the oldest first."""
    return tuple(_of(run, record) for record in run.inbox.undelivered)


def kept(id: str, text: str) -> Waiting:
    """Return a line that is kept for a run nobody runs."""
    return Waiting(id=id, text=text, fate="kept until the run is resumed", brief="kept")


def _of(run: Run, record: InputRecord) -> Waiting:
    place = branch_at(run, record.to) or run
    who = _at_work(place)
    held = " once it goes on" if run.visit.phase == "held" else ""
    match record.handling:
        case "steer":
            agent = who if place.visit.turn is None else place.visit.turn.agent or who
            fate, brief = f"joins the next request of {agent}{held}", "next request"
        case "queue":
            fate, brief = f"waits until {who} is done{held}", f"after {who}"
        case "interrupt":
            tools = _stopping(place)
            what = (
                f"{tools} {'have' if ', ' in tools else 'has'} stopped" if tools else "all stopped"
            )
            fate, brief = f"is delivered once {what}", "once stopped"
        case _:
            fate, brief = "is on its way", "on its way"
    return Waiting(
        id=record.id,
        text=as_typed(record.text, record.to),
        fate=fate,
        brief=brief,
        can_be_withdrawn=record.handling in ("steer", "queue"),
    )


def _at_work(place: Run) -> str:
    """Return what a line waits for: in a chat who speaks, else the state."""
    is_chat = place.definition is not None and place.definition.kind == "chat"
    if is_chat and place.visit.turn is not None and place.visit.turn.agent:
        return place.visit.turn.agent
    if is_chat and place.definition is not None:
        return next(iter(place.definition.roles), "this")
    return place.visit.state or "this"


def _stopping(place: Run) -> str:
    calls = () if place.visit.turn is None else place.visit.turn.calls
    return ", ".join(call.call.name for call in calls if call.status == "stopping")
