"""One verdict: may this happen without asking? Each call is another one, so that nothing is remembered.

The rules are as many as a careful person may have: 50 that allow, 20 that deny, a workspace's own. The
floor is what a list of allowed texts would cost that is looked through for the call's own: no globs, no
modes, no protected files. What is measured is the process's own CPU time.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from time import process_time
from typing import Final

from benchmarks.measuring import Figure, in_turn
from midstream.safety.capability import Capability
from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy, judged

AIM_US = 50
FLOOR = "its text looked for among the allowed ones"

POLICY: Final = Policy(
    mode="auto",
    sandbox="full",
    allow=(
        *(f"exec: tool{number} run *" for number in range(25)),
        *(f"write: package{number}/**/*.py" for number in range(25)),
    ),
    deny=(
        *(f"exec: forbidden{number} *" for number in range(10)),
        *(f"write: secret{number}/**" for number in range(10)),
    ),
    narrowing_ask=("exec: make deploy", "write: src/generated/**"),
)
_number = count()


def a_command() -> Capability:
    """Return a command that runs in the sandbox."""
    return read_command(f"pytest -x tests/test_{next(_number)}.py")


def a_look() -> Capability:
    """Return a command that only looks, with flags to be checked."""
    return read_command(f"git log --oneline -n {next(_number)}")


def a_line() -> Capability:
    """Return a line for a shell."""
    return read_command(f"cd src && pytest -x | tee log{next(_number)}")


def a_file() -> Capability:
    """Return a file to be written."""
    return Capability(kind="write", target=f"src/midstream/core/file{next(_number)}.py")


def ours(make: Callable[[], Capability], times: int) -> float:
    """Return the microseconds of a verdict."""
    requests = [make() for _ in range(times)]
    began = process_time()
    for request in requests:
        judged((request,), POLICY)
    return (process_time() - began) / times * 1e6


def floor(make: Callable[[], Capability], times: int) -> float:
    """Return the microseconds of looking for a text in a list."""
    requests = [make() for _ in range(times)]
    texts = list(POLICY.allow)
    began = process_time()
    for request in requests:
        assert str(request) not in texts
    return (process_time() - began) / times * 1e6


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds a verdict."""
    times, rounds = (200, 2) if is_quick else (3_000, 9)
    figures = []
    kinds = {
        "a command": a_command,
        "a command that only looks": a_look,
        "a shell line": a_line,
        "a file to write": a_file,
    }
    for name, make in kinds.items():
        ours(make, 50)
        own, bare = in_turn(rounds, partial(ours, make, times), partial(floor, make, times))
        figures.append(
            Figure(
                name=f"a verdict on {name}, 72 rules",
                unit="µs",
                values=own,
                floor=FLOOR,
                floors=bare,
                aim=AIM_US,
                aim_on="value",
                is_compared=False,
            )
        )
    return figures
