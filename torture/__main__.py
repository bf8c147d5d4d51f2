"""`python -m torture [NAME]`: everything, or one of the tortures by name. Exit code 1: it broke."""

import argparse
import contextlib
import sys
import time

from support.postgres import PostgresServer

from torture import TORTURES
from torture.bit_flips import flips
from torture.console_soak import soak
from torture.decoder import decoder_storm
from torture.editors import editors_storm
from torture.expressions import expressions_storm
from torture.kill_matrix import kills
from torture.late_owners import late_owners, move_into_a_network
from torture.machines import machines_storm
from torture.path_storm import path_storm
from torture.power_loss import losses
from torture.redaction import redaction_storm
from torture.report import Report, as_table
from torture.safety import safety_storm
from torture.sanitizer import sanitizer_storm
from torture.watchers import watched_kills


def _machines(asked: argparse.Namespace) -> Report:
    counts = {"runs": asked.runs, "lines": asked.lines, "clients": asked.clients}
    return machines_storm(asked.faults, asked.seed, only=asked.only, **counts)


def main() -> int:
    """Torture, print the table, return the exit code."""
    width = max(map(len, TORTURES))
    parser = argparse.ArgumentParser(
        prog="python -m torture",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:<{width}}  {promise}" for name, promise in TORTURES.items()),
    )
    parser.add_argument("name", nargs="?", choices=tuple(TORTURES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=6000, help="kill points")
    parser.add_argument("--pairs", type=int, default=600, help="kills during a recovery")
    parser.add_argument("--kills", type=int, default=300, help="owners killed that are watched")
    parser.add_argument("--images", type=int, default=5000, help="disks rebuilt after power loss")
    parser.add_argument("--flips", type=int, default=1000, help="bits flipped")
    parser.add_argument("--expressions", type=int, default=120_000, help="expressions tried")
    parser.add_argument("--flow", action="append", default=[], help="kill this flow, and no other")
    parser.add_argument("--no-clock", action="store_true", help="count their work, not their time")
    parser.add_argument("--trees", type=int, default=2_000, help="trees of links, each in two ways")
    parser.add_argument("--screens", type=int, default=20_000, help="texts put on a screen")
    parser.add_argument("--texts", type=int, default=100_000, help="texts redacted in pieces")
    parser.add_argument("--decodings", type=int, default=200_000, help="JSON texts decoded")
    parser.add_argument("--minutes", type=float, default=30, help="a storm on safety, so long")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds of it, small ones")
    parser.add_argument("--conversations", type=int, default=500, help="editors at random")
    parser.add_argument("--faults", type=int, default=300, help="faults of machines")
    parser.add_argument("--runs", type=int, default=50, help="runs at once that they meet")
    parser.add_argument("--lines", type=int, default=30, help="lines each of these writes")
    parser.add_argument("--trials", type=int, default=50, help="runs and tools of late owners")
    parser.add_argument("--clients", type=int, default=3, help="processes that talk to these runs")
    parser.add_argument("--consoles", type=int, default=80, help="consoles soaked, 10 minutes")
    parser.add_argument(
        "--script", default="", help="soak a console with this script, and no other"
    )
    parser.add_argument(
        "--only",
        default="",
        help="one kill point, such as loop:17 or loop:17+4, or tree; or faults of one kind: kill",
    )
    parser.add_argument(
        "--journal",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="where kills and watchers keep their runs",
    )
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        server = None
        if asked.journal == "postgresql":
            server = stack.enter_context(PostgresServer.made())
        return _tortured(asked, server)


def _tortured(asked: argparse.Namespace, server: PostgresServer | None) -> int:
    began = time.perf_counter()
    reports: list[Report] = []
    # Kills first: they fork, which costs more the more memory the others have left behind.
    if asked.name in (None, "kills"):
        reports += kills(
            asked.points,
            asked.pairs,
            asked.seed,
            only=asked.only,
            flows=asked.flow,
            server=server.address() if server else "",
        )
    if asked.name in (None, "watchers"):
        database = server.database() if server else ""
        reports.append(watched_kills(asked.kills, asked.seed, database=database))
    if asked.name in (None, "expressions"):
        clock = not asked.no_clock
        reports.append(expressions_storm(asked.expressions, asked.seed, clock=clock))
    if asked.name in (None, "flips"):
        reports.append(flips(asked.flips, asked.seed))
    if asked.name in (None, "power"):
        reports.append(losses(asked.images, asked.seed))
    if asked.name in (None, "safety"):
        reports += safety_storm(asked.minutes, asked.seed, rounds=asked.rounds)
    if asked.name == "paths":
        reports += path_storm(asked.trees, asked.seed, only=asked.only)
    if asked.name == "sanitizer":
        reports.append(sanitizer_storm(asked.screens, asked.seed))
    if asked.name == "redaction":
        reports.append(redaction_storm(asked.texts, asked.seed))
    if asked.name == "decoder":
        reports.append(decoder_storm(asked.decodings, asked.seed, clock=not asked.no_clock))
    if asked.name in (None, "editors"):
        reports.append(editors_storm(asked.conversations, asked.seed))
    if asked.name in (None, "machines"):
        reports.append(_machines(asked))
    if asked.name == "late":
        move_into_a_network()
    if asked.name in (None, "late"):
        reports.append(late_owners(asked.trials))
    if asked.name in (None, "console"):
        reports.append(soak(asked.consoles, asked.seed, file=asked.script))
    print(as_table(reports))
    print(f"{time.perf_counter() - began:.0f} s")
    return int(any(report.broken for report in reports))


sys.exit(main())
