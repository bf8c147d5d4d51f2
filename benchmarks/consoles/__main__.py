"""Measure consoles side by side, and print the tables of docs/compared.md.

Everything is installed first. What is measured then runs in a network namespace of its own, where nothing
but loopback is: no console can report, update or ask anybody but our server.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fcntl import ioctl
from functools import partial
from pathlib import Path
from struct import pack
from typing import Final, TypeVar

import msgspec

from benchmarks.consoles import steps
from benchmarks.consoles.report import STOPPED, Row, tables
from benchmarks.consoles.start import TEMPORARY, Installed, install, made_home
from benchmarks.consoles.table import BARE, MIDSTREAM, RIVALS
from benchmarks.measuring import progress

T = TypeVar("T")
EVERY: Final = (MIDSTREAM, *RIVALS)
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


def main() -> None:
    """Install, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consoles", description=__doc__)
    names = ", ".join(each.name for each in EVERY)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {names}; all")
    parser.add_argument("--runs", type=int, default=5, help="starts of each")
    parser.add_argument("--into", type=Path, help="install here, and keep it for the next time")
    parser.add_argument("--save", type=Path, help="write what was found here, as JSON")
    parser.add_argument("--only", choices=("starts", "steps"), help="measure a part of it")
    parser.add_argument(
        "--show", type=Path, nargs="+", help="print what was saved, and measure nothing"
    )
    parser.add_argument("--installed", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = set(chosen.names) - {each.name for each in EVERY}
    if unknown:
        parser.error(f"no console named {', '.join(sorted(unknown))}; there are {names}")
    if chosen.show:
        print(tables(_joined([_saved(path) for path in chosen.show])))
    elif chosen.installed:
        _loopback_up()
        found = msgspec.json.decode(chosen.installed.read_bytes(), type=list[Installed])
        rows = [Row(console=each, load=os.getloadavg()[0]) for each in found]
        for _ in measured(
            rows, chosen.runs, chosen.names or [each.name for each in EVERY], chosen.only
        ):
            if chosen.save:
                chosen.save.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
        print(tables(rows))
    else:
        _install_and_measure(chosen.names, chosen.into)


def _install_and_measure(names: list[str], into: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="midstream-consoles-", dir=TEMPORARY) as temporary:
        folder = (into or Path(temporary)).absolute()
        found = [install(BARE, folder)]
        for console in EVERY:
            if not names or console.name in names or console is MIDSTREAM:
                progress(f"... {console.name}: installed")
                found.append(install(console, folder))
        told = Path(temporary) / "installed.json"
        told.write_bytes(msgspec.json.encode(found))
        alone = (
            ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
        )
        command = [
            sys.executable,
            "-m",
            "benchmarks.consoles",
            *sys.argv[1:],
            "--installed",
            str(told),
        ]
        sys.exit(subprocess.run([*alone, *command]).returncode)


def _loopback_up() -> None:
    """Let the loopback of a new network namespace work."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SIOCSIFFLAGS, pack("16sh", b"lo", _IFF_UP_RUNNING))


# --- measuring --------------------------------------------------------------------------------------


def measured(rows: list[Row], runs: int, names: Sequence[str], only: str | None) -> Iterator[Row]:
    """Fill the rows, never two consoles at once; those named are taken through the steps. Gives each."""
    if only != "steps":
        yield from _starts([row for row in rows if not row.console.trouble], runs)
    for row in rows:
        if only != "starts" and not row.console.trouble and row.console.console.name in names:
            _behaviour(row)
        row.load = max(row.load, os.getloadavg()[0])
        yield row


def _saved(path: Path) -> list[Row]:
    return msgspec.json.decode(path.read_bytes(), type=list[Row])


def _joined(files: list[list[Row]]) -> list[Row]:
    """Return one row for each console, of what the files hold of it; the last one counts."""
    joined: dict[str, Row] = {}
    for row in (row for rows in files for row in rows):
        there = joined.setdefault(row.console.console.name, row)
        for name in row.__struct_fields__:
            if getattr(row, name):
                setattr(there, name, getattr(row, name))
    order = [each.name for each in (BARE, *EVERY)]
    return sorted(joined.values(), key=lambda row: order.index(row.console.console.name))


def _starts(rows: list[Row], runs: int) -> Iterator[Row]:
    """Start all in turn, each in a home it has been started in before. Gives one after each round."""
    with ExitStack() as homes:
        home_of = {row.name: homes.enter_context(made_home()) for row in rows}
        for number in range(runs + 1):
            found: dict[str, steps.Begun] = {}
            for row in rows if number % 2 else reversed(rows):
                progress(f"... {row.name}: start {number} of {runs}")
                start = _or_why(row, "start", partial(steps.begun, row.console, home_of[row.name]))
                if start is not None:
                    found[row.name], row.first = start
            floor = found.get(BARE.name)
            for row in rows:
                if number and floor is not None and row.name in found:
                    began = msgspec.structs.replace(found[row.name], floor_s=floor.usable_s)
                    row.starts.append(began)
            yield rows[0]


def _behaviour(row: Row) -> None:
    """Take a console through the steps, one after the other."""
    console = row.console

    def step(what: str, work: Callable[[Installed], T]) -> T | None:
        progress(f"... {console.console.name}: {what}")
        return _or_why(row, what, partial(work, console))

    row.typed = step("a line while text streams", steps.line_while_streaming)
    row.stopped = step(STOPPED, steps.stopped_in_a_word)
    row.cut = step("a call cut in its arguments", steps.call_cut_in_its_arguments)
    row.tool = step("a call stopped while it runs", steps.call_stopped_while_it_runs)
    row.killed = step("killed while text streams", steps.killed_while_streaming)
    row.killed_in_tool = step("killed while a tool runs", steps.killed_while_a_tool_runs)


def _or_why(row: Row, what: str, work: Callable[[], T]) -> T | None:
    """Return what a step came to; what went wrong with it stands in the row."""
    try:
        return work()
    except (OSError, EOFError, LookupError) as error:
        row.troubles[what] = f"{type(error).__name__}: {str(error)[:1200]}"
        progress(f"    {row.troubles[what][:300]}")
        return None


if __name__ == "__main__":
    main()
