"""A storm of texts with secrets in them, cut into pieces anywhere, on their way through redaction.

Whatever comes: in pieces or whole, what comes out is the same; no value of ours is in it; and a JSON
text stays one.
"""

import json
import random
import string

from midstream.safety.redaction import Redactor, secret_values
from torture.report import Broken, Report

_ALNUM = string.ascii_letters + string.digits
_CRUMBS = (
    *(
        "sk-",
        "sk-ant-",
        "AKIA",
        "ASIA",
        "ghp_",
        "github_pat_",
        "xoxb-",
        "eyJ",
        "://",
        "@",
        ":",
        "//",
    ),
    *("password", "Token", "api_key", "secret", "pwd", "-----BEGIN ", "PRIVATE KEY", "-----END "),
    *(
        "-----",
        "Bearer ",
        "basic ",
        '"',
        "'",
        "\\",
        "\\n",
        "\n",
        " ",
        "\t",
        "=",
        ":",
        "=>",
        ",",
        ";",
    ),
    *(
        "(",
        ")",
        "[",
        "{",
        "$",
        "`",
        "|",
        "é",
        "İ",
        "ß",
        "\u212a",
        "\U0001f600",
        "\x00",
        "s",
        "p",
        "t",
    ),
    *(
        "the ",
        "quick ",
        "brown ",
        "fox ",
        "https",
        "def f(",
        "A" * 64,
        "MIIE",
        ".",
        "_",
        "-",
        "1",
        "9",
    ),
)


def redaction_storm(count: int, seed: int) -> Report:
    """Return which of so many texts were not what they should be."""
    chance = random.Random(seed)
    broken: list[Broken] = []
    secrets = 0
    for number in range(count):
        own = {f"SERVICE_{n}_TOKEN": _value(chance) for n in range(chance.randrange(1, 4))}
        values = secret_values(own)
        redactor = Redactor(values)
        planted = [_key(chance) for _ in range(chance.randrange(3))]
        text = _text(chance, [*own.values(), *planted])
        known = [value for value in own.values() if value in values]
        what = _wrong(redactor, text, known, _cut(chance, text))
        secrets += text != redactor.redacted(text)
        if what:
            again = f"python -m torture redaction --seed {seed} --texts {number + 1}"
            broken.append(
                Broken(point=f"text {number}", what=f"{what}: {text[:300]!r}", again=again)
            )
    note = f"{secrets} with secrets in them"
    return Report(name="redaction", tried=count, broken=tuple(broken), note=note)


def _wrong(redactor: Redactor, text: str, own: list[str], pieces: list[str]) -> str:
    whole = redactor.redacted(text)
    sliding = redactor.sliding()
    if "".join(map(sliding.fed, pieces)) + sliding.rest() != whole:
        return f"in pieces {pieces!r} it is not the same"
    if any(value in whole for value in own):
        return "a value of ours is in it"
    try:
        json.loads(redactor.redacted(json.dumps([text, {text: text}], ensure_ascii=False)))
    except ValueError as error:
        return f"as JSON it is none any more ({error})"
    return ""


def _text(chance: random.Random, secrets: list[str]) -> str:
    parts = [
        chance.choice(secrets)
        if secrets and chance.random() < 0.15
        else chance.choice(_CRUMBS)
        if chance.random() < 0.8
        else "".join(chance.choices(_ALNUM, k=chance.choice((3, 8, 16, 20, 40))))
        for _ in range(chance.randrange(1, 30))
    ]
    if chance.random() < 0.3:
        at = chance.randrange(len(parts))
        parts[at] = parts[at][: chance.randrange(len(parts[at]) + 1)]
    return "".join(parts)


def _value(chance: random.Random) -> str:
    kind = chance.randrange(4)
    if kind == 0:
        return "sk-" + "".join(chance.choices(_ALNUM, k=chance.choice((5, 20, 40))))
    if kind == 1:
        return " ".join(chance.choices(("correct", "horse", "battery", "staple"), k=3))
    if kind == 2:
        return chance.choice("ab") * 8 + chance.choice("ab") * chance.randrange(3)
    return "".join(chance.choices(string.printable.strip(), k=chance.choice((8, 12, 33)))).strip()


def _key(chance: random.Random) -> str:
    start = chance.choice(
        ("sk-proj-", "sk-ant-", "ghp_", "glpat-", "AIza", "xoxb-", "hf_", "Bearer ")
    )
    return start + "".join(chance.choices(_ALNUM, k=chance.choice((18, 36, 48)))) + "7a8B9"


def _cut(chance: random.Random, text: str) -> list[str]:
    pieces, at = [], 0
    most = chance.choice((1, 2, 5, 20, 100))
    while at < len(text):
        size = chance.randrange(most + 1)
        pieces.append(text[at : at + size])
        at += size
    return pieces
