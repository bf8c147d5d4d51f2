"""A storm over the strict decoder: garbage, good JSON bent, known attacks, whatever the size.

Whatever comes, the outcome is a value every other part can hold (64 bits, finite, no NUL, no half of
a pair, at most so deep, kept by the journal's own encoder and read back as itself) or `BadValue`. With
`clock`, no text may take more than its length allows.
"""

import json
import math
import random
import time

import msgspec

from midstream.language.names import Json
from midstream.safety.decoding import (
    MAX_DEPTH,
    BadValue,
    checked,
    clean,
    decode_arguments,
    decode_object,
)
from torture.report import Broken, Report

MOST_MS = 40.0
MOST_MS_PER_KB = 0.6

GOOD = [
    '{"path": "a.py", "lines": [1, 2.5e3], "deep": {"on": true, "of": null}}',
    '{"text": "Gr\\u00fc\\u00dfe \\ud83d\\ude00", "n": -9223372036854775808}',
    '{"a": 18446744073709551615, "b": 0.1, "c": "", "d": [], "e": {}}',
    '{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "x"}]}}',
]
ATTACKS = [
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": 1e400}',
    '{"a": 1e-400}',
    '{"a": 18446744073709551616}',
    '{"a": -9223372036854775809}',
    '{"a": ' + "9" * 5_000 + "}",
    '{"a": 0.' + "1" * 50_000 + "}",
    '{"a": 1, "a": 2}',
    '{"\\u0061": 1, "a": 2}',
    '{"a": "\\u0000"}',
    '{"\\u0000": 1}',
    '{"a": "\\ud800"}',
    '{"\\udfff": "\\udfff\\ud800"}',
    '{"a": "\ud83d"}',
    '{"a":' * 65 + "1" + "}" * 65,
    '{"a":' * 64 + "1" + "}" * 64,
    '{"a":' + "[" * 50_000,
    '{"a":' * 20_000,
    "{" + ",".join(f'"{n}":{n}' for n in range(5_000)) + ',"4999":0}',
    "{" + ",".join('"a":1' for _ in range(20_000)) + "}",
    "[" * 10,
    "\ufeff{}",
    "{}\x00",
    '{"a": 1}}',
    '{"a": 1} {"b": 2}',
    '{"a": tru}',
    '{"a": "\n"}',
    '{"a": 01}',
    '{"a": +1}',
    '{"a": .5}',
    '{"a": 0x10}',
    '{"a": 1_000}',
    '{"a": \u0661}',
    "{'a': 1}",
    '{"a": 1,}',
    '{"__proto__": {"x": 1}}',
]
_SIGNS = '{}[]",:\\u0123456789eE+-. \n\t\x00\x1b\ud800\udc00\u202eaNI\U0001f600'


def decoder_storm(count: int, seed: int, *, clock: bool = True) -> Report:
    """Return what `count` texts did to the decoder. The same seed makes the same texts."""
    chance = random.Random(seed)
    broken: list[Broken] = []
    refused = 0
    for number in range(count):
        text = ATTACKS[number] if number < len(ATTACKS) else _text(chance)
        began = time.process_time()
        try:
            wrong = _wrong(decode_object(text))
        except BadValue:
            wrong, refused = "", refused + 1
        except Exception as error:
            wrong = f"{type(error).__name__}: {error:.100}"
        took_ms = (time.process_time() - began) * 1e3
        if clock and took_ms > MOST_MS + MOST_MS_PER_KB * len(text) / 1_000:
            wrong = wrong or f"took {took_ms:.0f} ms for {len(text):,} characters"
        if wrong:
            again = f"python -m torture decoder --seed {seed} --decodings {number + 1}"
            broken.append(Broken(point=f"decoder:{number} {text[:60]!r}", what=wrong, again=again))
    note = f"{refused:,} refused"
    return Report(name="strict decoder", tried=count, broken=tuple(broken), note=note)


def _wrong(value: dict[str, Json]) -> str:
    """Return what is wrong with a value that was let in, "" if nothing is."""
    if why := _unsound(value, 1):
        return f"let in {why}"
    if checked(value) != value:
        return "is not what it is when looked at again"
    kept = msgspec.json.encode(value)
    if msgspec.json.decode(kept) != value and decode_arguments(kept.decode()) != value:
        return "is another value once kept"
    return ""


def _unsound(value: Json, depth: int) -> str:
    if depth > MAX_DEPTH:
        return "what is too deep"
    match value:
        case str():
            return "a text that cannot be kept" if "\0" in value or clean(value) != value else ""
        case bool() | None:
            return ""
        case int():
            return "" if -(2**63) <= value < 2**64 else "a number too large"
        case float():
            return "" if math.isfinite(value) else "a number that is none"
        case dict():
            found = (
                _unsound(key, depth) or _unsound(item, depth + 1) for key, item in value.items()
            )
            return next(filter(None, found), "")
        case list():
            return next(filter(None, (_unsound(item, depth + 1) for item in value)), "")
    return f"a {type(value).__name__}"


def _text(chance: random.Random) -> str:
    match chance.randrange(5):
        case 0:
            return "".join(chance.choices(_SIGNS, k=chance.randrange(200)))
        case 1:
            return json.dumps({"a": _value(chance, 0)}, ensure_ascii=chance.random() < 0.5)
        case 2:
            head, tail = chance.choice(ATTACKS), chance.choice(GOOD)
            return f'{{"x": {head}, "y": {tail}}}'
        case _:
            text = list(chance.choice(GOOD + ATTACKS[:16]))
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(text) + 1)
                text[at : at + chance.randrange(3)] = chance.choices(_SIGNS, k=chance.randrange(3))
            return "".join(text)


def _value(chance: random.Random, depth: int) -> Json:
    kind = chance.randrange(8 if depth < 70 else 6)
    match kind:
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.choice(
                [0, -1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, chance.getrandbits(70)]
            )
        case 2:
            return chance.choice([0.0, 1e308, -1e-308, float("nan"), float("inf"), chance.random()])
        case 3 | 4 | 5:
            return "".join(chance.choices(_SIGNS, k=chance.randrange(20)))
        case 6:
            return [_value(chance, depth + 1) for _ in range(chance.randrange(1, 3))]
        case _:
            keys = ("".join(chance.choices(_SIGNS, k=2)) for _ in range(chance.randrange(1, 3)))
            return {key: _value(chance, depth + 1) for key in keys}
