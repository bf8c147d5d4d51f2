"""What is done to a console in a soak, as data: a script of keys, output, resizes and looks.

Made from a seed, kept as JSON, and cut down to what still fails. Words a person would miss are tokens
such as `Q17X`: each is typed once, so that it can be looked for afterwards. Keys that delete, or that
take the next key for themselves, are known (`MARRING`): what they may have deleted is not looked for.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

MARK: Final = "¤"
"""Stands in everything the runs say, and in nothing that is typed."""

TOKEN: Final = re.compile(r"Q\d+X")

ESC, ENTER, TAB, CTRL_C, CTRL_D = "\x1b", "\r", "\t", "\x03", "\x04"


class Keys(msgspec.Struct, frozen=True, tag_field="do", tag="keys"):
    """Write these keys, all at once."""

    text: str


class Slowly(msgspec.Struct, frozen=True, tag_field="do", tag="slowly"):
    """Write these keys one by one, each once the one before has been read."""

    text: str


class Alone(msgspec.Struct, frozen=True, tag_field="do", tag="alone"):
    """Write one key that is used insteadself, such as Esc, and let it be understood so."""

    text: str


class Resize(msgspec.Struct, frozen=True, tag_field="do", tag="resize"):
    """Give the terminal another size."""

    columns: int
    rows: int


class Tell(msgspec.Struct, frozen=True, tag_field="do", tag="tell"):
    """Have the runs say or ask something; see `soaked_console`."""

    what: str
    count: int = 1


class Wait(msgspec.Struct, frozen=True, tag_field="do", tag="wait"):
    """Let time pass, reading what comes."""

    ms: int


class Look(msgspec.Struct, frozen=True, tag_field="do", tag="look"):
    """Compare what is on the screen and what is kept with what should be."""


class Leave(msgspec.Struct, frozen=True, tag_field="do", tag="leave"):
    """End the console in this way and look at what is left of it."""

    how: str


Action: TypeAlias = Keys | Slowly | Alone | Resize | Tell | Wait | Look | Leave

LEAVES: Final = ("ctrl_c", "ctrl_d", "exit", "SIGTERM", "SIGHUP", "hang_up")

TELLS: Final = (
    *("stream", "stream", "stream", "stream", "reply", "foreign", "tool", "tool", "lines", "think"),
    *("ask", "choices", "form", "several", "approve", "approve", "command", "close", "close_all"),
    *("busy", "busy", "idle", "lanes", "halt", "refuse", "refuse", "dispose", "slow"),
)

MOVES: Final = (
    *("\x01", "\x05", "\x02", "\x06", "\x1bb", "\x1bf", "\x1b[D", "\x1b[C", "\x1b[H", "\x1b[F"),
    *("\x0c", "\x0f", "\x14", "\x1b!", "\x1b[A", "\x1b[B", "\x10", "\x0e", "\x1b[5~", "\x1b[6~"),
    *("\x1b[Z", "\x1b[13;5u", "\x1b[27;5;13~", "\x1b[1;5D", "\x1b[1;5C", "\x1bOP", "\x1b[24~"),
    *("\x1b[200~\x1b[201~", "\x1b[I", "\x1b[O", "\x1b[?62c", "\x1b[1;1R", "\x1b[M !!", "\x1c"),
)
"""Keys that delete nothing: moving, looking, and what a terminal may say by itself."""

INTO_WORDS: Final = (
    *("\x02", "\x06", "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x10", "\x0e", "\x1b[5~", "\x1b[6~"),
)
"""Those after which the cursor may be within a word."""

MARRING: Final = (
    *("\x7f", "\x08", "\x17", "\x15", "\x0b", "\x1b[3~", "\x1bd", "\x1b\x7f", "\x19", "\x1f"),
    *("\x1bc", "\x1bu", "\x1bl", "\x1b*", "\x1b.", "\x1by", "\x1b#", "\x1b\\"),
)
"""Keys that delete or change what is in the line."""

SEARCH: Final = ("\x12", "\x13")
"""Keys after which letters are looked for instead of typed."""

WORDS: Final = (
    *(
        "please",
        "and the tests",
        "日本語の",
        "naïve e\u0301",
        "👩‍💻 ok",
        "yes",
        "no",
        "run it",
        "שלום",
    ),
    *("x = 1", "-- ", "1", "2 blue", "quite a long line that will not fit into forty columns"),
)

COMMANDS: Final = (
    *(
        "/help",
        "/nothing {}",
        "/queue {}",
        "/steer {}",
        "/stop",
        "//{}",
        "#1 {}",
        "@ada {}",
        "@src {}",
    ),
    *("/verbose on", "/verbose off", "!echo hello", "!!{}", "!printf 'a\\nb\\nc'", "{} \\", "/wor"),
)


def script(seed: int, length: int) -> tuple[Action, ...]:
    """Return a script of about that many actions, the same for the same seed."""
    chance = random.Random(seed)
    writer = _Writer(chance)
    actions: list[Action] = [Resize(chance.randint(40, 200), chance.randint(8, 60))]
    while len(actions) < length:
        actions += writer.step()
        if chance.random() < 0.08:
            actions.append(Look())
    return (*actions, Look(), Leave(chance.choice(LEAVES)))


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._tokens = 0
        # A third of all scripts has no keys that delete: everything is looked for in them.
        self._may_mar = chance.random() < 0.67

    def step(self) -> list[Action]:
        """Return a few actions that belong together."""
        chance = self._chance
        kinds: list[tuple[int, list[Action]]] = [
            (9, [self._typing()]),
            (4, [Keys(ENTER)]),
            (2, [self._typing(), Wait(chance.choice((0, 60, 200))), Alone(ENTER)]),
            (2, [self._typing(), Wait(200), Alone(TAB)]),
            (2, [self._paste()]),
            (6, [self._moving() for _ in range(chance.randint(1, 4))]),
            (3, [Alone(ESC)]),
            # Twice on an empty line it leaves, which is for the end.
            (1, [Alone(CTRL_C), self._typing()]),
            (1, [Keys(chance.choice(("\x1b\r", "\n")))]),
            (1, [Alone(TAB)]),
            (2, [Keys(self._command()), Wait(chance.choice((0, 150))), Keys(ENTER)]),
            (1, [Alone(chance.choice(SEARCH)), Keys("p"), Alone(chance.choice((ESC, ENTER)))]),
            (1, [Alone("\x07"), Wait(400)]),
            (2, [Wait(600), Alone(chance.choice("yrnweane?"))]),
            (1, [Tell("approve"), Keys(chance.choice(("y", "r", "yes", "y\r", "e\r")))]),
            # Too early to decide, and in time but not alone.
            (2, [Keys(ENTER), Tell("approve"), Wait(chance.choice((60, 150, 250))), Alone("y")]),
            (2, [Keys(ENTER), Tell("approve"), Wait(600), Keys(chance.choice(("yr", "y ok")))]),
            (1, [Tell("command"), Wait(600), Alone("e"), Wait(200), Alone(ENTER)]),
            (14, self._telling()),
            (6, self._resizing()),
            (4, [Wait(chance.choice((5, 30, 120, 500)))]),
        ]
        if self._may_mar:
            kinds.append((3, [Keys(chance.choice(MARRING)) for _ in range(chance.randint(1, 3))]))
        return chance.choices([one for _, one in kinds], [weight for weight, _ in kinds])[0]

    def _moving(self) -> Action:
        move = self._chance.choice(MOVES)
        # What is typed within a token would hide it.
        return Keys(move + "\x05" if move in INTO_WORDS else move)

    def _token(self) -> str:
        self._tokens += 1
        return f"Q{self._tokens}X"

    def _typing(self) -> Action:
        chance = self._chance
        text = f"{self._token()} {chance.choice(WORDS)} "
        return chance.choice((Keys, Slowly))(text)

    def _command(self) -> str:
        return self._chance.choice(COMMANDS).format(self._token())

    def _paste(self) -> Action:
        chance = self._chance
        lines = chance.choice((1, 1, 3, 30))
        text = "\r".join(f"{self._token()} {chance.choice(WORDS)}\ty\x1b[2J" for _ in range(lines))
        if chance.random() < 0.2:
            # A terminal without bracketed paste.
            return Keys(text.replace("\x1b[2J", "").replace("\t", " "))
        return Keys(f"\x1b[200~{text}\x1b[201~")

    def _telling(self) -> list[Action]:
        chance = self._chance
        return [
            Tell(chance.choice(TELLS), chance.choice((1, 1, 3, 40, 300)))
            for _ in range(chance.randint(1, 5))
        ]

    def _resizing(self) -> list[Action]:
        chance = self._chance
        found: list[Action] = []
        for _ in range(chance.choice((1, 1, 1, 6))):
            found += [
                Resize(chance.randint(40, 200), chance.randint(8, 60)),
                Wait(chance.choice((0, 0, 10, 80))),
            ]
        return found


def written(actions: Sequence[Action], path: Path) -> None:
    """Write a script down, one action a line."""
    lines = [msgspec.json.encode(action) for action in actions]
    path.write_bytes(b"\n".join(lines) + b"\n")


def read(path: Path) -> tuple[Action, ...]:
    """Return a script that was written down."""
    return tuple(msgspec.json.decode(line, type=Action) for line in path.read_bytes().splitlines())
