"""What is done to midstream to see whether its promises hold.

`make torture` does all of it, in a good hour on two cores, half of it a storm on safety; `python -m torture
NAME` does one. CI does a short part of each (tests/torture, tests/core). The same `--seed` makes the same
attacks, and what broke is told with the command line that repeats it.
"""

import sys
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for the package `support`

TORTURES: Final = {
    "kills": "processes killed at every point, and again while they recover: nothing lost or repeated",
    "watchers": "owners killed in mid-reply, under watchers and senders: no line lost, no fact twice",
    "expressions": "conditions and templates of every kind: no crash, no work without end",
    "flips": "single bits of the journal flipped: noticed, never used",
    "power": "disks rebuilt as a power loss leaves them: what was acknowledged is there",
    "safety": "attacks of every kind for half an hour: the next four, command lines, rules, approvals",
    "paths": "trees of links that are swapped meanwhile: no descriptor outside the workspace",
    "sanitizer": "foreign text on a terminal that obeys everything: nothing it says is obeyed",
    "redaction": "secrets in texts cut into pieces anywhere: none comes out",
    "decoder": "JSON bent in every way: a value that can be kept, or refused, in bounded time",
    "machines": "workers of a database killed, stopped, cut off, servers failing: each run ends whole",
    "late": "owners stopped or cut off for too long: all they try is refused, their tools have ended",
    "editors": "random editors on `midstream acp`, killed and back: each prompt ends, nothing is lost",
    "console": "random keys, output and resizes: typed words are kept, the screen is right, nothing stays",
}
"""Each torture by its name, and the promise it tries."""
