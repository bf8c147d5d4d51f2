import re
from pathlib import Path

import pytest
from toolbench import Bench

from midstream.language.errors import UserMistake
from midstream.tools.small_tools import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("2 ** 10", 1024),
        ("-7 // 2", -4),
        ("7 % 4", 3),
        ("1 / 4", 0.25),
        ("round(pi, 2)", 3.14),
        ("max(1, 2.5, 2)", 2.5),
        ("sqrt(16) + abs(-1)", 5.0),
        ("factorial(20)", 2432902008176640000),
        ("3 > 2", True),
        ("1 if 2 > 3 else 0", 0),
        ("2 ** -1", 0.5),
        ("1e3 * 2", 2000.0),
        ("0 ** 3000", 0),
    ],
)
def test_arithmetic_is_calculated(expression: str, value: float) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "9 ** 9 ** 9",
        "9 ** 99999",
        "10 ** 3000 * 10 ** 3000",
        "factorial(10 ** 6)",
        "factorial(450) * factorial(450) * factorial(450) * factorial(450)",
        "1 / 0",
        "1e308 * 10",
        "(-1) ** 0.5",
        "'a' * 1000000",
        "[1] * 1000000",
        "[x for x in (1, 2)]",
        "().__class__",
        "(1).real",
        "__import__('os')",
        "open('/etc/passwd')",
        "lambda: 1",
        "1 << 100000",
        "2 ^ 3",
        "x + 1",
        "pi()",
        "f'{1}'",
        "1; 2",
        "x = 1",
        "",
        "   ",
        "1 +",
        "(" * 400 + "1" + ")" * 99,
        "-" * 499 + "1",
        "True * 'a'",
        "1 if 9 ** 9 ** 9 else 2",
        "round(1.5, 10 ** 9)",
        "max()",
        "nan",
        "1j",
        "None",
        "exp(1000)",
        "factorial(-1)",
    ],
)
def test_what_is_no_small_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(UserMistake):
        value_of(expression)


async def test_calculate_answers_in_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert await bench.text("calculate", expression="6 * 7") == "42"
    assert "is too long" in await bench.failure("calculate", expression="1+" * 300 + "1")
    assert "cannot be calculated" in await bench.failure("calculate", expression="x + 1")


async def test_the_time_is_told_here_and_in_utc(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    text = await bench.text("get_time", timezone="Asia/Tokyo")

    assert re.fullmatch(
        r"\w+day \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+09:00 \(UTC: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\)",
        text,
    )
    assert "UTC" in await bench.text("get_time")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "\0"])
async def test_a_wrong_time_zone_is_explained(tmp_path: Path, zone: str) -> None:
    assert "no time zone" in await Bench(tmp_path).failure("get_time", timezone=zone)
