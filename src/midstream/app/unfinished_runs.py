"""The runs an earlier process left: told of, or let go on, when a console begins."""

from collections.abc import Callable

from midstream.app.background_runs import Background
from midstream.app.destinations import Addressing
from midstream.app.run_access import Keeping
from midstream.language.mode import Mode
from midstream.runtime.ports import Face, Machine
from midstream.runtime.ports.storage import KeptRun


async def left_runs(
    keeping: Keeping | None,
    background: Background,
    *,
    is_resumed: bool,
    is_for_chat: bool,
    going: Callable[[Machine], None],
) -> tuple[KeptRun, ...]:
    """Tell of the runs that were left or cut, or let them go on (`is_resumed`); return all of them.

    `going` hears of each that goes on. Who begins with an earlier chat (`is_for_chat`) sees the chats
    anyway, and is told of the other runs alone.
    """
    left = await background.open(keeping)
    if not is_resumed:
        background.announce(
            [kept for kept in left if not (is_for_chat and kept.summary.kind == "chat")]
        )
        return left
    for machine in await background.auto_resume(left):
        going(machine)
    return left


def turns_to_kept(
    wanted: Mode, left: tuple[KeptRun, ...], to: Addressing, background: Background, face: Face
) -> bool:
    """Keep a saved mode from starting its workflow again while a run of it is kept or elsewhere.

    Return whether it is not to be started. One that goes on here is turned to.
    """
    if wanted.kind == "role":
        return False
    kept = [each for each in left if each.summary.found_as == wanted.name]
    elsewhere = background.elsewhere(wanted.name)
    if not kept and not elsewhere:
        return False
    going = {machine.run.id: machine for machine in to.own_machines()}
    for each in reversed(kept):
        if each.id in going:
            to.place(going[each.id])
            return True
    # How kept runs go on was told with each of them.
    ways = [f"{background.way_on(each)} (in another process)" for each in elsewhere]
    ways.append(f"/workflow {wanted.name} starts another")
    face.say(
        f"The mode is {to.mode}: {wanted.name} is not started again, because a run of it "
        f"is running or kept. {'; '.join(ways)}.",
        kind="note",
    )
    return True
