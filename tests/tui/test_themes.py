"""Themes: every colour can be read on what it is made for, and none carries a meaning alone."""

import math
import re
from itertools import product
from pathlib import Path

import pytest

from midstream.config.settings import FEW_VALUES, THEME
from midstream.tui.styled_lines import to_ansi
from midstream.tui.themes import (
    ADDED,
    ATTENTION,
    FAILED,
    NO_COLOUR,
    OK,
    REMOVED,
    THEMES,
    Look,
    has_256,
    rgb,
    sgr,
    toolkit_rules,
)

TUI = Path(__file__).parents[2] / "src" / "midstream" / "tui"
FIXED = ["light", "dark", "colour-blind-light", "colour-blind-dark"]
GROUNDS = {"light": ("#ffffff", "#fdf6e3"), "dark": ("#000000", "#282c34")}
"""White and cream; black and a dark grey: what terminals have, and the hardest of each."""
BLIND_SAFE = FIXED[2:]
OPPOSITES = ((ADDED, REMOVED), (OK, FAILED), (OK, ATTENTION))

Rgb = tuple[float, float, float]


def linear(channel: float) -> float:
    value = channel / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast of two colours, by WCAG 2."""

    def luminance(colour: Rgb) -> float:
        red, green, blue = map(linear, colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


# What people see of linear RGB, by G. M. Machado and others (2009), at the full severity.
SEEN_WITHOUT = {
    "red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def lab(colour: Rgb, lacking: str = "") -> Rgb:
    """Return a colour in CIE L*a*b*, as it is seen by who lacks the cones for one."""
    light = [linear(channel) for channel in colour]
    if lacking:
        rows = SEEN_WITHOUT[lacking]
        light = [
            min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in rows
        ]
    red, green, blue = light
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(one: Rgb, other: Rgb, lacking: str) -> float:
    pairs = zip(lab(one, lacking), lab(other, lacking), strict=True)
    return math.hypot(*(a - b for a, b in pairs))


def hexed(text: str) -> Rgb:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:], 16)


@pytest.mark.parametrize("name", FIXED)
def test_every_colour_can_be_read_on_what_its_theme_is_made_for(name: str) -> None:
    found = {
        (style, ground): contrast(rgb(parameters), hexed(ground))
        for (style, parameters), ground in product(
            THEMES[name].colours.items(), GROUNDS[name.rpartition("-")[2]]
        )
    }

    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("lacking", ["red", "green"])
@pytest.mark.parametrize("name", BLIND_SAFE)
def test_opposites_differ_for_those_who_see_no_red_or_no_green(name: str, lacking: str) -> None:
    colours = THEMES[name].colours
    found = {
        pair: difference(rgb(colours[pair[0]]), rgb(colours[pair[1]]), lacking)
        for pair in OPPOSITES
    }

    assert {pair: d for pair, d in found.items() if d < 40} == {}


def test_the_measure_tells_red_from_green_only_for_those_who_see_them() -> None:
    red, green = (175.0, 95.0, 0.0), (95.0, 135.0, 0.0)

    assert difference(red, green, "") > 40
    assert difference(red, green, "green") < 15


@pytest.mark.parametrize("name", BLIND_SAFE)
def test_with_sixteen_colours_opposites_are_no_red_and_no_green(name: str) -> None:
    basic = THEMES[name].basic

    assert not {"31", "32"} & set(basic.values())
    assert all(basic[one] != basic[other] for one, other in OPPOSITES)


def test_every_theme_says_the_same_names_and_is_a_setting() -> None:
    names = {theme: set(found.colours) | set(found.basic) for theme, found in THEMES.items()}

    assert len({frozenset(each) for each in names.values()}) == 1
    assert tuple(THEMES) == FEW_VALUES[THEME]


def test_without_colours_there_are_none_in_any_theme() -> None:
    for name in THEMES:
        for style in THEMES[name].colours:
            drawn = sgr(style, Look(name, colour=False).table)
            assert drawn in ("", "2")
    assert not any(THEMES["plain"].colours.values())
    assert NO_COLOUR["muted"] == "2"


def test_no_colour_stands_anywhere_but_in_the_table() -> None:
    written = re.compile(
        r'"(?:\d+;)*(?:3[0-7]|9[0-7]|[34]8;[25];\d+)"|ansi(?:red|green|cyan|magenta)'
    )
    found = {
        path.name: written.findall(path.read_text(encoding="utf-8"))
        for path in TUI.glob("*.py")
        if path.name != "themes.py"
    }

    assert {name: hits for name, hits in found.items() if hits} == {}


def test_another_theme_counts_from_the_next_row_on() -> None:
    look, row = Look("light"), [("1;4;added", "+x")]
    before = to_ansi(row, look.table)
    look.theme = "dark"

    assert before == "\x1b[1;4;38;5;22m+x\x1b[0m"
    assert to_ansi(row, look.table) == "\x1b[1;4;38;5;114m+x\x1b[0m"


def test_the_live_region_has_the_same_colours() -> None:
    assert ("added", "#005f00") in toolkit_rules(Look("light"))
    assert ("added", "ansigreen") in toolkit_rules(Look("light", many=False))
    assert ("muted", "dim") in toolkit_rules(Look("dark", colour=False))


@pytest.mark.parametrize(
    ("environ", "has"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "linux"}, False),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, True),
        ({}, False),
    ],
)
def test_a_terminal_is_believed_what_it_says_of_itself(environ: dict[str, str], has: bool) -> None:
    assert has_256(environ) is has
