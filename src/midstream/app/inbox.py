"""The lines a run was given and has not heard: which wait, and taking one back."""

from midstream.runtime.ports import Machine, Receipt
from midstream.views.undelivered import Waiting, kept, waiting


class Inbox:
    """The waiting lines of the runs of a console, those included that are kept for another process."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, str]] = {}

    def note(self, machine: Machine, receipt: Receipt, text: str) -> None:
        """Remember a line that was kept for a run nobody runs: its inbox does not know of it."""
        if receipt.handling != "reject" and receipt.input_id not in machine.run.inbox.lines:
            self._kept.setdefault(machine.run.id, {})[receipt.input_id] = text

    def waiting(self, machine: Machine | None) -> tuple[Waiting, ...]:
        """Return the lines of a run that wait, the oldest first."""
        if machine is None or machine.run.is_over:
            return ()
        return (*waiting(machine.run), *(kept(id, text) for id, text in self._left(machine)))

    async def take_back(self, machine: Machine | None) -> str | None:
        """Withdraw the newest line of a run that waits and return it, None if it is too late."""
        for line in reversed(self.waiting(machine)):
            if machine is not None and line.can_be_withdrawn:
                await machine.withdraw(line.id)
                self._kept.get(machine.run.id, {}).pop(line.id, None)
                record = machine.run.inbox.lines.get(line.id)
                is_back = record is None or record.disposition == "withdrawn"
                return line.text if is_back else None
        return None

    def _left(self, machine: Machine) -> list[tuple[str, str]]:
        """Return what is still kept for a run, by id."""
        known = self._kept.get(machine.run.id, {})
        return [(id, text) for id, text in known.items() if id not in machine.run.inbox.lines]
