"""The themes: what each style of the console means, and how it is drawn. The one table of colours. Pure.

A style is a list of words with `;` between them: SGR parameters that are no colours, such as `1`
(bold), and names of this table. What a name means is said by signs and words as well (`+`, `✗`, "denied"),
so that a theme may leave all of its colours out.

`auto` has only those of the basic sixteen that can be read on a light and on a dark background: no
black, white, blue or yellow. The others are for one background each and take their colours from those
of the 256 that no terminal changes: each has a contrast of at least 4.5 (WCAG 2) with the lightest and
the darkest background there is for it. A terminal that knows sixteen gets a theme's `basic` table. Those
for the colour-blind tell blue from orange, never red from green.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias

import msgspec

Table: TypeAlias = dict[str, str]
"""How each name is drawn: the parameters of an SGR sequence, "" for nothing."""

PLAIN: Final = ""
BOLD: Final = "1"
MUTED: Final = "muted"
"""What matters less: what was used, what went before."""
ACCENT: Final = "accent"
"""What is the console's own: the prompt, questions, what is at work."""
ATTENTION: Final = "attention"
"""What wants to be looked at: an approval, a warning, what was stopped."""
OK: Final = "ok"
FAILED: Final = "failed"
ADDED: Final = "added"
REMOVED: Final = "removed"
AGENTS: Final = ("agent-1", "agent-2", "agent-3")
CODE: Final = "code"
KEYWORD: Final = "keyword"
STRING: Final = "string"

MUTED_BASIC: Final = "2"
_FIXED: Final = "38;5;"


def _table(
    form: str,
    *,
    muted: int,
    accent: int,
    attention: int,
    ok: int,
    failed: int,
    agents: tuple[int, int, int],
) -> Table:
    """Return a table of colours by their numbers; differences and code have those of the rest."""
    numbers = {MUTED: muted, ACCENT: accent, ATTENTION: attention, OK: ok, FAILED: failed}
    numbers |= {ADDED: ok, REMOVED: failed, CODE: accent, KEYWORD: attention, STRING: ok}
    numbers |= zip(AGENTS, agents, strict=True)
    return {name: form.format(number) for name, number in numbers.items()}


_basic: Final = partial(_table, "{}", muted=int(MUTED_BASIC), accent=36, attention=35)
_fixed: Final = partial(_table, f"{_FIXED}{{}}")

_AUTO: Final = _basic(ok=32, failed=31, agents=(36, 35, 32))
_NO_RED_OR_GREEN: Final = _basic(ok=36, failed=35, agents=(36, 35, 32)) | {AGENTS[2]: ""}


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """How everything is drawn: `colours` on a terminal with 256, `basic` on one with sixteen.

    No two that mean the opposite differ in red and green alone in a theme for the colour-blind.
    """

    colours: Table
    basic: Table


THEMES: Final[Mapping[str, Theme]] = {
    "auto": Theme(colours=_AUTO, basic=_AUTO),
    "light": Theme(
        basic=_AUTO,
        colours=_fixed(muted=240, accent=24, attention=90, ok=22, failed=124, agents=(24, 90, 22)),
    ),
    "dark": Theme(
        basic=_AUTO,
        colours=_fixed(
            muted=248, accent=80, attention=176, ok=114, failed=210, agents=(80, 176, 114)
        ),
    ),
    "colour-blind-light": Theme(
        basic=_NO_RED_OR_GREEN,
        colours=_fixed(muted=240, accent=24, attention=94, ok=25, failed=94, agents=(25, 94, 240)),
    ),
    "colour-blind-dark": Theme(
        basic=_NO_RED_OR_GREEN,
        colours=_fixed(
            muted=248, accent=117, attention=222, ok=75, failed=214, agents=(117, 214, 252)
        ),
    ),
    "plain": Theme(colours=dict.fromkeys(_AUTO, ""), basic=dict.fromkeys(_AUTO, "")),
}
"""Every theme. Their names are the values of the setting `theme` (`config.settings.Theme`)."""

NO_COLOUR: Final[Table] = _AUTO | dict.fromkeys(_AUTO, "") | {MUTED: MUTED_BASIC}
"""What NO_COLOR leaves of any theme: bold, and what matters less dim."""

_MANY: Final = ("alacritty", "contour", "foot", "ghostty", "rio", "wezterm", "xterm-kitty")


def has_256(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal says that it has 256 colours or more."""
    term = environ.get("TERM", "")
    return bool(environ.get("COLORTERM")) or "256" in term or term.startswith(_MANY)


class Look:
    """How styles are drawn now; another theme counts from the next thing drawn on."""

    def __init__(self, theme: str = "auto", *, colour: bool = True, many: bool = True) -> None:
        """Begin with a theme. `colour`: NO_COLOR is not set. `many`: the terminal has 256 colours."""
        self._colour = colour
        self._many = many
        self.theme = theme
        """Its name."""

    @property
    def has_colour(self) -> bool:
        """Return whether there are colours at all."""
        return self._colour and self.theme != "plain"

    @property
    def is_fixed(self) -> bool:
        """Return whether they are out of 256, and look the same everywhere."""
        return self.has_colour and self._many and self.theme != "auto"

    @property
    def table(self) -> Table:
        """Return how each name is drawn."""
        if not self._colour and self.theme != "plain":
            return NO_COLOUR
        found = THEMES[self.theme]
        return found.colours if self._many else found.basic


def sgr(style: str, table: Table) -> str:
    """Return the SGR parameters of a style, "" for none."""
    if style in table:
        return table[style]
    return ";".join(filter(None, (table.get(part, part) for part in style.split(";"))))


def toolkit_rules(look: Look) -> list[tuple[str, str]]:
    """Return prompt_toolkit's rules for the names, as classes, and for what it draws itself."""
    rules = [(name, _in_its_words(parameters)) for name, parameters in look.table.items()]
    return rules if look.theme == "auto" else [*rules, *_MENUS]


_MENUS: Final = (
    ("completion-menu", "noinherit"),
    ("completion-menu.completion", "noinherit"),
    ("completion-menu.completion.current", "noinherit reverse"),
    ("completion-menu.meta.completion", "noinherit"),
    ("completion-menu.meta.completion.current", "noinherit reverse"),
    ("search", "noinherit underline"),
    ("search.current", "noinherit reverse"),
    ("incsearch", "noinherit underline"),
    ("incsearch.current", "noinherit reverse"),
)
"""Its own lists have greys on greys, which are no theme's: here the terminal's own two colours."""

_BASIC: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_LEVELS: Final = (0, 95, 135, 175, 215, 255)


def _in_its_words(parameters: str) -> str:
    if parameters.startswith(_FIXED):
        return "#{:02x}{:02x}{:02x}".format(*rgb(parameters))
    if parameters in ("", MUTED_BASIC):
        return "dim" if parameters else ""
    return f"ansi{_BASIC[int(parameters) - 30]}"


def rgb(parameters: str) -> tuple[int, int, int]:
    """Return what a fixed colour, `38;5;NUMBER` with a number from 16 on, looks like on every terminal."""
    number = int(parameters.removeprefix(_FIXED))
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    number -= 16
    return _LEVELS[number // 36], _LEVELS[number // 6 % 6], _LEVELS[number % 6]
