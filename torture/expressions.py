"""A storm of expressions and templates: garbage, good ones bent, known attacks, on values of any size.

Whatever comes, the outcome is a value, `BadExpression` or `ExpressionFailed` (of a template: its own
two), and the work is bounded: counted in the calls Python makes, which would show a loop that
forgets to count its steps. With `clock`, none may take over 50 ms of processor time either.
"""

import gc
import random
import sys
import time
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from midstream.language import evaluation, expressions, templates
from midstream.language.data_paths import Missing
from midstream.language.errors import MidstreamError
from midstream.language.names import Json
from torture.report import Broken, Report

MOST_MS = 50.0
MOST_CALLS = 8 * evaluation.MAX_WORK
PROFILED = 7
"""Of how many expressions one is run again with its calls counted, which takes its time."""

GOOD = [
    "common_data.score >= 7 and not common_data.open_questions",
    "'LGTM' in last.text or visits.review > 3",
    "matches(lower(input), 'fix|repair') and len(common_data.files) < 20",
    "1 < common_data.n <= 3",
    "common_data['user-name'] == 'ada' and common_data.files[0].n in ['a', 'b']",
    "any(common_data.flags) and all([common_data.flags, input])",
    "min(1, 2, common_data.n) + max(common_data.list) * 3 // 2 - 7 % 4 / 2",
    "common_data.x is None or common_data.x is not None",
    "last.arguments.verdict != 'no' and resume_input",
    r"matches(last.text, '(?im)^verdict:\s*(yes|no)\b')",
    "-common_data.n < -1 and common_data.files[-1]",
    "variables.limit > visits.start + 1",
]
ATTACKS = [
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__.__mro__[1].__subclasses__()",
    "input.__class__.__init__.__globals__['os'].system('true')",
    "common_data.__class__.__init__.__globals__",
    "__import__('os').system('true')",
    "(lambda: [c for c in ().__class__.__base__.__subclasses__()])()",
    "'{0.__class__}'.format(input)",
    "input.format(input)",
    "f'{input.__class__}'",
    "f'{input!r:>1000000}'",
    "'%1000000000d' % 1",
    "'a' * 10 ** 9",
    "[0] * 10 ** 9",
    "9 ** 9 ** 9 ** 9",
    "1 << 10 ** 9",
    "[i for i in [0] * 10]",
    "(x := [1]) and x.append(x)",
    "len.__self__.__import__('os')",
    "len.__globals__",
    "lower.func.__globals__",
    "matches.__func__.__code__",
    "common_data.items.__self__",
    "common_data.get.__self__.__class__",
    "common_data.keys().__class__",
    "input[0:1].__class__",
    "eval('1')",
    "exec('1')",
    "getattr(input, '__class__')",
    "type(input)",
    "open('/etc/passwd').read()",
    "os.popen('true')",
    "min(*common_data.list)",
    "max(common_data.list, key=len)",
    "(yield)",
    "(await input)",
    "print('x')",
    "globals()",
    "common_data.mro",
    "common_data.func_globals",
    "common_data['__class__']['__init__']",
    "{**common_data}",
    "{1: 2}[1]",
    "input if 1 else 2",
    "~1",
    "1 @ 2",
    "...",
    "b'x'",
    "1j",
    "0x7fffffffffffffffffffffff",
    "9223372036854775807 + 1",
    "-9223372036854775807 - 2",
    "1e308 * 10",
    "1e308 * 1e308 - 1e308 * 1e308",
    "0 / 0",
    "1 // 0.0",
    "1 % 0",
    "common_data.big_int + 1",
    "common_data.nan < 1 or common_data.nan == common_data.nan",
    "common_data.inf - common_data.inf",
    "\\\n1",
    "1;2",
    "import os",
    "def f(): pass",
    "# nothing",
    "'\\N{BULLET}'",
    "'\\x41'",
    "input\x00",
    "\ud800",
    "'\ud800' in input",
    "ｌｅｎ(input)",
    "common_data.ﬁles",
]
HEAVY = [
    "common_data.list == common_data.list2",
    "common_data.deep == common_data.deep2",
    "common_data.shared == common_data.shared2",
    "common_data.shared in [common_data.shared2, common_data.shared2]",
    "[] in common_data.list",
    "common_data.deep in common_data.list",
    "'x' in common_data.list",
    "-1 in common_data.list",
    "1.5 not in common_data.list",
    "common_data.text in common_data.texts",
    "'aaaaaaaaaab' in common_data.text",
    "common_data.needle in common_data.text",
    "common_data.text == common_data.text2 and common_data.text < common_data.text2",
    "lower(common_data.turkish)",
    "lower(lower(common_data.turkish)) == lower(common_data.turkish)",
    "common_data.turkish + common_data.turkish",
    "common_data.list + common_data.list",
    "common_data.text + common_data.text",
    "max(common_data.list)",
    "min(common_data.texts)",
    "all(common_data.ones) and any(common_data.zeros)",
    "common_data.object == common_data.object2",
    "common_data.missing in common_data.object",
    "len(common_data['odd keys'].mine)",
    "common_data['odd keys']['a b'] > 1",
    "not (common_data.list == common_data.list2) or not (common_data.deep == common_data.deep2)",
]
PATTERNS = [
    "(a+)+b",
    "(a|a)*c",
    "(a|aa)+$",
    "a*a*a*a*a*c",
    "(.*)(.*)(.*)(.*)x",
    "(a|b)*a(a|b){12}c",
    "(a|b)*a(a|b){200}c",
    "([ab]*c?)*d",
    r"\w{0,900}x",
    "a[ab]{900}c",
    "((a{0,9}){0,9}){0,9}b",
    "((((a{99}){99}){99}){99}){99}",
    "(){999999}",
    "((){1000}){1000}",
    "a{1000000000000}",
    r"(?i)[^x]*y",
    r"(?i).*[a-z]{3}.*[0-9]$",
    r"(\w|\W\w)*!$",
    r"(?im)^verdict:\s*(yes|no)\b",
    r"(a)\1",
    "(?=a)a",
    "(?>a+)b",
    "a++",
    "[[:alpha:]]",
    "[a--b]",
    r"[\x00-\uffff]+!",
    "[z-a]",
    "(" * 99 + ")" * 99,
    "|" * 200,
    "(?:" * 15 + "a*" + ")*" * 15,
]
CRUMBS = [
    *"()[]{}<>=!+-*/%.,:;'\"\\ \t\n@#$^&|~?_a1é𝔸\x00\ud800",
    *("and", "or", "not", "in", "is", "None", "True", "len", "min", "any", "lower", "matches"),
    *(
        "common_data",
        "input",
        "last",
        "visits",
        ".x",
        "[0]",
        "['a']",
        "**",
        "//",
        "==",
        "<=",
        "1e9",
    ),
    *(
        "lambda",
        "if",
        "else",
        "for",
        "__class__",
        "0x1",
        "1_0",
        ":=",
        "${input}",
        "999999999999999999999",
    ),
]


def expressions_storm(count: int, seed: int, *, clock: bool) -> Report:
    """Return which of so many expressions and templates crashed, or took more than they may."""
    chance = random.Random(seed)
    data = _data(chance)
    storm = _Storm(data, clock=clock)
    gc.collect()
    gc.freeze()
    try:
        with warnings.catch_warnings():
            # A warning of Python's about an expression would reach the user's terminal.
            warnings.simplefilter("error")
            for number in range(count):
                kind = _KINDS[number % len(_KINDS)]
                storm.one(f"{kind.__name__}:{number}", kind(chance))
    finally:
        gc.unfreeze()
    again = f"python -m torture expressions --seed {seed} --expressions {count}"
    broken = tuple(Broken(point=point, what=what, again=again) for point, what in storm.broken)
    note = f"{storm.good} with a value, {storm.failed} failed; most calls {storm.calls:,}"
    if clock:
        note += f", longest {storm.longest_ms:.1f} ms: {storm.longest[:60]!r}"
    return Report(name="expressions", tried=count, broken=broken, note=note)


class _Storm:
    """What was seen so far."""

    def __init__(self, data: dict[str, Json], *, clock: bool) -> None:
        self.data = data
        self.clock = clock
        self.broken: list[tuple[str, str]] = []
        self.good = self.failed = self.calls = 0
        self.longest_ms = 0.0
        self.longest = ""

    def one(self, point: str, text: str) -> None:
        run = self._template if point.startswith("_templates") else self._expression
        try:
            took = _timed(run, text)
            if self.clock and took > MOST_MS / 2:
                # Once may be the machine's fault.
                took = min(took, _timed(run, text), _timed(run, text))
            if int(point.split(":")[1]) % PROFILED == 0:
                self._counted(point, run, text)
        except Exception as error:
            self.broken.append((point, f"{type(error).__name__}: {error}: {text[:200]!r}"))
            return
        if took > self.longest_ms:
            self.longest_ms, self.longest = took, text
        if self.clock and took > MOST_MS:
            self.broken.append((point, f"took {took:.0f} ms: {text[:200]!r}"))

    def _counted(self, point: str, run: Callable[[str], None], text: str) -> None:
        calls = 0

        def count(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event.endswith("call")

        sys.setprofile(count)
        try:
            run(text)
        finally:
            sys.setprofile(None)
        self.calls = max(self.calls, calls)
        if calls > MOST_CALLS:
            self.broken.append((point, f"made {calls:,} calls: {text[:200]!r}"))

    def _expression(self, text: str) -> None:
        try:
            expression = expressions.compiled.__wrapped__(text)
        except expressions.BadExpression as error:
            _check_told(error, text, error.column)
            return
        try:
            value = expression.evaluate(self.data)
        except expressions.ExpressionFailed as error:
            _check_told(error, text)
            self.failed += 1
            return
        self.good += 1
        assert value is None or isinstance(value, bool | int | float | str | list | dict), value
        assert not callable(value)

    def _template(self, text: str) -> None:
        try:
            template = templates.compiled.__wrapped__(text)
        except templates.BadTemplate as error:
            _check_told(error, text, error.column)
            return
        try:
            filled = template.text(self._look_up)
        except templates.TemplateFailed as error:
            _check_told(error, text)
            self.failed += 1
            return
        filled.encode()
        assert len(filled) <= templates.MAX_FILLED_CHARS
        self.good += 1

    def _look_up(self, path: str) -> Json | Missing:
        value: Json = self.data
        for part in path.split("."):
            if not isinstance(value, dict) or part not in value:
                return Missing()
            value = value[part]
        return value


def _check_told(error: MidstreamError, text: str, column: int = 1) -> None:
    """Check that an error can be shown: it says something, not too much, and where."""
    assert 1 <= column <= len(text) + 1, f"column {column} of {len(text)}"
    assert error.what, "nothing said"
    assert len(str(error)) < 1_000, f"{len(str(error))} characters"
    assert str(error).isprintable(), "not printable"
    str(error).encode()


def _timed(run: Callable[[str], None], text: str) -> float:
    began = time.thread_time()
    run(text)
    return (time.thread_time() - began) * 1000


# --- what comes ---------------------------------------------------------------------------------


def _garbage(chance: random.Random) -> str:
    return "".join(chance.choice(CRUMBS) for _ in range(chance.randrange(1, 40)))


def _bent(chance: random.Random) -> str:
    text = chance.choice([*GOOD, *GOOD, *ATTACKS, *HEAVY])
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.randrange(6))
        piece = chance.choice([chance.choice(CRUMBS), "", text[at:end] * 2, chance.choice(GOOD)])
        text = text[:at] + piece + text[end:]
    return text[:600]


def _attack(chance: random.Random) -> str:
    text = chance.choice(ATTACKS)
    other = chance.choice([*ATTACKS, *GOOD, *HEAVY])
    return chance.choice(
        [text, f"({text})", f"{text} and {other}", f"len({text})", f"[{other}, {text}]"]
    )


def _heavy(chance: random.Random) -> str:
    parts = [chance.choice([*HEAVY, *GOOD]) for _ in range(chance.randrange(1, 6))]
    return chance.choice([" and ", " or "]).join(f"(({part}) or 1)" for part in parts)[:600]


def _deep(chance: random.Random) -> str:
    times = chance.choice([3, 14, 15, 16, 17, 60, 100, 240, 480])
    opening, middle, closing = chance.choice(
        [
            ("(", "1", ")"),
            ("not ", "1", ""),
            ("-", "1", ""),
            ("[", "1", "]"),
            ("len(", "input", ")"),
            ("common_data[", "0", "]"),
            ("", "common_data", ".a"),
            ("", "common_data", "[0]"),
            ("", "input", "()"),
            ("1+(", "1", ")"),
            ("", "1", "+1"),
            ("", "1", "<1"),
            ("", "1", " and 1"),
            ("1 if ", "1", " else 1"),
            ("lambda:", "1", ""),
            ("{", "1", "}"),
            ("*", "input", ""),
            ("f'{", "1", "}'"),
        ]
    )
    return opening * times + middle + closing * times


def _made(chance: random.Random) -> str:
    """Return a well-formed expression over the names there are."""
    return _value(chance, 4)[:600]


def _value(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(_LEAVES)
    one, other = _value(chance, depth - 1), _value(chance, depth - 1)
    sign = chance.choice(
        ["and", "or", "<", "<=", "==", "!=", "in", "not in", "+", "-", "*", "/", "%", "//"]
    )
    call = chance.choice(["len", "min", "max", "any", "all", "lower"])
    forms = [f"{one} {sign} {other}", f"({one} {sign} {other})", f"{call}({one})", f"not {one}"]
    forms += [f"-{one}", f"[{one}, {other}]", f"{one}[{other}]", f"max({one}, {other})"]
    return chance.choice(forms)


_LEAVES = [
    *("common_data", "common_data.n", "common_data.list", "common_data.texts", "common_data.nan"),
    *("common_data.files[0].n", "common_data.deep", "common_data.missing.x", "common_data.text"),
    *("input", "last.text", "last.arguments", "visits.start", "visits.never", "variables.limit"),
    *(
        "0",
        "1",
        "-1",
        "2.5",
        "9223372036854775807",
        "1e300",
        "''",
        "'a'",
        "'n'",
        "None",
        "True",
        "[]",
    ),
    *("common_data.big_int", "common_data.turkish", "common_data.object", "common_data.shared"),
]


def _patterns(chance: random.Random) -> str:
    pattern = chance.choice(PATTERNS)
    if chance.random() < 0.7:
        pieces = [
            "a",
            "b",
            ".",
            "*",
            "+",
            "?",
            "|",
            "(",
            ")",
            "[",
            "]",
            "^",
            "$",
            "{2}",
            "{0,9}",
            "{1,}",
        ]
        pieces += [
            "(?:",
            "(?i)",
            r"\d",
            r"\w",
            r"\b",
            r"\s",
            "[^a]",
            "[a-z]",
            r"\\",
            "é",
            "-",
            "{",
            "}",
        ]
        made = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 25)))
        pattern = chance.choice([made, made + pattern, f"({pattern}){made}"])
    text = chance.choice(
        ["input", "last.text", "common_data.ab", "common_data.strange", "common_data.n"]
    )
    return f"matches({text}, '{pattern}')"


def _templates(chance: random.Random) -> str:
    pieces = [
        "${",
        "$${",
        "$",
        "{",
        "}",
        "?",
        "input",
        "common_data",
        ".n",
        ".",
        " ",
        "x",
        "é",
        "\n",
    ]
    pieces += [
        "${input}",
        "${common_data.object}",
        "${common_data.a?b}",
        "${last_response?}",
        "[0]",
    ]
    pieces += [
        "${common_data.hostile}",
        "${common_data.text}",
        "${common_data.deep}",
        "\ud800",
        "${common_data.odd keys.mine}",
    ]
    return "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 12)))


_KINDS = (_garbage, _bent, _attack, _heavy, _deep, _made, _patterns, _bent, _made, _templates)


def _data(chance: random.Random) -> dict[str, Json]:
    """Return values of every size and depth, some that only a handler in Python could have made."""
    deep, deep2, shared, shared2 = ([1], [1], [1, 2], [1, 2])
    for _ in range(20_000):
        deep, deep2 = [deep], [deep2]  # type: ignore[list-item]
    for _ in range(60):
        shared, shared2 = [shared, shared], [shared2, shared2]  # type: ignore[list-item]
    common = {
        "n": 3,
        "score": 8,
        "files": [{"n": "a"}, {"n": "b"}],
        "flags": [True, False],
        "list": list(range(300_000)),
        "list2": list(range(300_000)),
        "ones": [1] * 300_000,
        "zeros": [0] * 300_000,
        "deep": deep,
        "deep2": deep2,
        "shared": shared,
        "shared2": shared2,
        "text": "a" * 3_000_000,
        "text2": "a" * 3_000_000,
        "needle": "a" * 90 + "b" + "a" * 90,
        "texts": ["a" * 300 + str(number) for number in range(30_000)],
        "turkish": "İ" * 190_000,
        "object": {str(number): number for number in range(60_000)},
        "object2": {str(number): number for number in range(60_000)},
        "ab": "".join(chance.choice("ab") for _ in range(190_000)),
        "strange": "".join(chr(chance.randrange(32, 0xD000)) for _ in range(60_000)),
        "hostile": "${common_data.secret} ${input} $${",
        "nan": float("nan"),
        "inf": float("inf"),
        "big_int": 10**5000,
        "user-name": "ada",
        "format": "pdf",
        "__class__": {"__init__": 1},
        "half": "\ud800",
        "odd keys": {"a\nb": 1, "\u2028": 2, "\ud800": 3, "${input}": 4, "x" * 10_000: 5},
    }
    return {
        "common_data": common,
        "input": "a" * 100_000 + "!",
        "last": {"text": "VERDICT: yes\n" * 5_000, "arguments": {"verdict": "yes"}, "value": None},
        "last_response": None,
        "resume_input": None,
        "variables": {"limit": 3},
        "visits": {"start": 2, "review": 4},
    }
