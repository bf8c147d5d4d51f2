"""What a torture tells: points tried, held, broken, each broken one with how to try it again."""

from collections.abc import Iterable

import msgspec


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """One point where the promise did not hold. `again` is the command line that repeats it."""

    point: str
    what: str
    again: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one torture."""

    name: str
    tried: int
    broken: tuple[Broken, ...] = ()
    note: str = ""

    @property
    def held(self) -> int:
        """Return at how many points the promise held."""
        return self.tried - len({broken.point for broken in self.broken})


def as_table(reports: Iterable[Report]) -> str:
    """Return the reports as a table, the broken points below it."""
    reports = list(reports)
    lines = ["torture                           tried     held   broken  note"]
    for report in reports:
        broken = report.tried - report.held
        lines.append(
            f"{report.name:<30} {report.tried:>8} {report.held:>8} {broken:>8}  {report.note}".rstrip()
        )
    for report in reports:
        lines += [f"{b.point}: {b.what}\n    again: {b.again}" for b in report.broken[:20]]
    return "\n".join(lines)
