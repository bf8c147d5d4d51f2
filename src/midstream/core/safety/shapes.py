r"""What secrets look like: keys by their makers' prefixes, tokens, passwords by what stands before.

A shape is a small language, written as pieces. Each piece knows two patterns: of its texts, and of
whatever may still become one of them. The second is what lets a stream be looked through as it
comes: only what may still become a secret has to wait.

    shape              a key     sk-…                      `kept`: "sk-" is part of the secret
    kept + secret      a field   password = "…"            only what is in the quotes is taken out
    kept + secret + after        ://user:…@                and only if an @ follows

**A shape never spans what a shell reads as more than one word** (the one exception, the body of a PEM
block, is words of sixteen characters and more): a command cannot hide from whoever approves it
behind what looks like a secret.

Ordinary code is full of names such as `token` and `password`. So what follows them is taken for a
secret only if it looks like one: letters and digits in it, and no path, name or placeholder. A
password that is made of words alone is not recognised.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

LONGEST: Final = 20_000
"""Characters of a secret. No key is longer; what is, is not looked at beyond."""


class Piece(NamedTuple):
    """A part of a shape: the pattern of its texts, and of what may become one (up to the end)."""

    full: str
    part: str


def lit(text: str, *, any_case: bool = False) -> Piece:
    """Return exactly this text."""
    chars = [
        f"[{char.lower()}{char.upper()}]" if any_case and char.isalpha() else re.escape(char)
        for char in text
    ]
    part = ""
    for char in reversed(chars):
        part = f"(?:{char}{part})?"
    return Piece("".join(chars), rf"{part}\Z")


def run(chars: str, least: int, most: int = LONGEST) -> Piece:
    """Return characters of a class, as many as there are. A shorter run is none."""
    return Piece(rf"(?>[{chars}]{{{least},{most}}})", rf"[{chars}]{{0,{most}}}\Z")


def seq(*pieces: Piece) -> Piece:
    """Return the pieces one after the other."""
    part = pieces[-1].part
    for piece in reversed(pieces[:-1]):
        part = f"(?:{piece.part}|{piece.full}{part})"
    return Piece("".join(piece.full for piece in pieces), part)


def either(*pieces: Piece) -> Piece:
    """Return one of the pieces, the first that fits."""
    return Piece(
        f"(?:{'|'.join(piece.full for piece in pieces)})",
        f"(?:{'|'.join(piece.part for piece in pieces)})",
    )


def maybe(piece: Piece) -> Piece:
    """Return the piece, or nothing."""
    return Piece(f"(?:{piece.full})?", rf"(?:{piece.part}|\Z)")


def many(piece: Piece, most: int) -> Piece:
    """Return the piece up to so many times. No text of it may be the beginning of another."""
    return Piece(f"(?:{piece.full}){{0,{most}}}", f"(?:{piece.full}){{0,{most}}}{piece.part}")


NOTHING: Final = Piece("", r"\Z")


class Shape:
    """One kind of secret. `begins` are the texts it can begin with (lower case if `any_case`).

    `behind` says what may stand before it: "any", "word" (no letter or digit), or "name" (no letter,
    unless a capital begins a part of a name, as in `dbPassword`).
    """

    def __init__(
        self,
        name: str,
        begins: tuple[str, ...],
        secret: Piece,
        *,
        kept: Piece = NOTHING,
        after: Piece = NOTHING,
        ahead: str = "",
        behind: str = "word",
        any_case: bool = False,
        is_one: Callable[[re.Match[str]], bool] = lambda found: True,
    ) -> None:
        self.name = name
        self.begins = begins
        self.behind = behind
        self.any_case = any_case
        self._full = f"(?P<kept>{kept.full})(?P<secret>{secret.full}){after.full}{ahead}"
        self._part = seq(kept, secret, after).part
        self._is_one = is_one

    def find(self, text: str, at: int) -> tuple[int, int] | None:
        """Return where the secret stands of which the shape begins at `at`, None if none does."""
        found = _compiled(self._full).match(text, at)
        return found.span("secret") if found is not None and self._is_one(found) else None

    def is_open(self, text: str, at: int) -> bool:
        """Return whether what begins at `at` reaches the end of the text and may go on."""
        return _compiled(self._part).match(text, at) is not None

    def may_follow(self, text: str, at: int) -> bool:
        """Return whether the shape may begin at `at`, for what stands before."""
        if at == 0 or self.behind == "any":
            return True
        before = text[at - 1]
        if self.behind == "word":
            return not (before.isalnum() or before == "_")
        return not before.isalpha() or (before.islower() and text[at].isupper())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# --- what looks like one ------------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(
    r"(?i)^(?:your|example|sample|dummy|change|insert|replace|placeholder|redacted)"
    r"|^x{4,}|^\*+$|^\.+$|^(.)\1*$"
)
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[-_.:/][A-Za-z]+)+[-_.]?[0-9]{0,2}")
_NAME: Final = re.compile(r"[A-Za-z_][a-z_]*[0-9]?(?:\.[A-Za-z_][A-Za-z_0-9]*)*[0-9]{0,2}")
_CHANGES: Final = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")


def _has_both(text: str) -> bool:
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _is_key(found: re.Match[str]) -> bool:
    """Tell a key from names with dashes, such as a style sheet's."""
    text = found["secret"]
    return sum(c.isdigit() for c in text) >= 3 and (
        any(c.isupper() for c in text) or re.search("[A-Za-z0-9]{16}", text) is not None
    )


def _has_digit(found: re.Match[str]) -> bool:
    return _has_both(found["secret"])


def _is_basic(found: re.Match[str]) -> bool:
    text = found["secret"]
    is_mixed = any(c.islower() for c in text) and any(c.isupper() for c in text)
    return is_mixed and (len(text) % 4 == 0)


def _is_quoted(found: re.Match[str]) -> bool:
    return _could_be(found["secret"])


def _could_be(text: str) -> bool:
    return (
        _has_both(text)
        and not text.startswith(("/", "./", "../", "~", "http:", "https:"))
        and _PLACEHOLDER.search(text) is None
        and _WORDS.fullmatch(text) is None
    )


def _is_bare(found: re.Match[str]) -> bool:
    text, kept = found["secret"], found["kept"]
    if not _could_be(text):
        return False
    if kept.isupper() and kept.endswith("="):
        return True  # an environment's own way to write it
    is_mixed = any(c.islower() for c in text) and any(c.isupper() for c in text)
    is_mixed = is_mixed or any(c in "!@#%^*+/=" for c in text)
    return (is_mixed or len(_CHANGES.findall(text)) >= 3) and _NAME.fullmatch(text) is None


_COMMON_PASSWORDS: Final = frozenset(
    {"pass", "password", "passwd", "pw", "secret", "postgres", "root", "guest", "admin", "user"}
)


def _is_url_password(found: re.Match[str]) -> bool:
    text = found["secret"]
    user = found["kept"].removeprefix("://").removesuffix(":")
    return (
        text.lower() not in _COMMON_PASSWORDS
        and text != user
        and _PLACEHOLDER.search(text) is None
        and len(text) >= 3
    )


# --- the shapes ---------------------------------------------------------------------------------

_B64URL: Final = "A-Za-z0-9_-"


def _key(
    name: str,
    begins: str,
    chars: str = _B64URL,
    least: int = 20,
    is_one: Callable[[re.Match[str]], bool] = _has_digit,
) -> Shape:
    return Shape(name, (begins,), seq(lit(begins), run(chars, least)), is_one=is_one)


_JWT: Final = seq(
    lit("eyJ"), run(_B64URL, 10), lit("."), run(_B64URL, 10), maybe(seq(lit("."), run(_B64URL, 0)))
)

_GAP: Final = either(run(r"\s", 1, 8), seq(lit("\\"), run("nr", 1, 1)))
_GAPS: Final = many(_GAP, 4)
_BASE64: Final = "A-Za-z0-9+/="
_PEM_HEADER: Final = seq(lit("-----BEGIN "), run("A-Z0-9 ", 0, 60), lit("-----"), _GAPS)
_PEM_FIELDS: Final = maybe(
    seq(
        lit("Proc-Type: 4,ENCRYPTED"),
        _GAPS,
        maybe(seq(lit("DEK-Info: "), run("A-Z0-9,-", 1, 100), _GAPS)),
    )
)
_PEM_LINE: Final = seq(run(_BASE64, 16, 4_000), _GAPS)
_PEM_BODY: Final = seq(_PEM_LINE, many(_PEM_LINE, 400))
_PEM_END: Final = maybe(
    seq(
        maybe(seq(run(_BASE64, 1, 15), _GAPS)),
        lit("-----END "),
        run("A-Z0-9 ", 0, 60),
        lit("-----"),
    )
)


def _is_private(found: re.Match[str]) -> bool:
    header = found["secret"][:80]
    return "PRIVATE KEY-----" in header or "PRIVATE KEY BLOCK-----" in header


_KEY_WORDS: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "credentials"),
    *(
        f"{what}{gap}key"
        for what in ("api", "access", "secret", "private", "account", "signing", "encryption")
        for gap in ("", "_", "-")
    ),
)
_QUOTE: Final = seq(run(r"\\", 0, 3), run("\"'", 1, 1))
_SPACE: Final = run(r" \t", 0, 4)
_FIELD: Final = seq(
    either(*(lit(word, any_case=True) for word in sorted(_KEY_WORDS, key=len, reverse=True))),
    maybe(_QUOTE),
    _SPACE,
    run(":=", 1, 2),
    maybe(lit(">")),
    _SPACE,
)
_UNSHELLED: Final = r"""\s"'`$<>{}()\[\];|&\\,"""
"""What no secret behind a name holds: all by which a shell could read more than a word."""

_URL_PART: Final = r"""\s/:@?#"'`$<>{}()\[\];|&\\"""


def _url(name: str) -> Shape:
    return Shape(
        name,
        ("://",),
        run(f"^{_URL_PART}", 1, 400),
        kept=seq(lit("://"), run(f"^{_URL_PART}", 0, 200), lit(":")),
        after=lit("@"),
        behind="any",
        is_one=_is_url_password,
    )


SHAPES: Final = (
    _key("anthropic key", "sk-ant-", is_one=_is_key),
    _key("openai key", "sk-", is_one=_is_key),
    _key("google key", "AIza", least=30),
    _key("google token", "ya29.", least=20),
    _key("google secret", "GOCSPX-", least=20),
    *(
        Shape(
            "aws key id",
            (start,),
            seq(lit(start), run("A-Z0-9", 16, 16)),
            ahead="(?![A-Za-z0-9_])",
            is_one=_has_digit,
        )
        for start in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    *(
        _key("github token", start, "A-Za-z0-9", 30)
        for start in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
    ),
    _key("github token", "github_pat_", "A-Za-z0-9_", 22),
    _key("gitlab token", "glpat-", _B64URL, 20),
    *(
        _key("slack token", start, "A-Za-z0-9-", 10)
        for start in ("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxp-", "xoxr-", "xoxs-", "xapp-")
    ),
    Shape(
        "slack webhook",
        ("hooks.slack.com/services/",),
        run("A-Za-z0-9/_", 20, 200),
        kept=lit("hooks.slack.com/services/"),
    ),
    *(
        _key("stripe key", start, "A-Za-z0-9", 16)
        for start in ("sk_live_", "sk_test_", "rk_live_", "rk_test_")
    ),
    _key("stripe secret", "whsec_", "A-Za-z0-9+/=", 20),
    _key("hugging face token", "hf_", "A-Za-z0-9", 30, lambda found: True),
    _key("npm token", "npm_", "A-Za-z0-9", 36),
    _key("pypi token", "pypi-", _B64URL, 40),
    _key("sendgrid key", "SG.", "A-Za-z0-9_.-", 40),
    _key("groq key", "gsk_", "A-Za-z0-9", 30),
    _key("xai key", "xai-", "A-Za-z0-9", 30),
    _key("digitalocean token", "dop_v1_", "a-f0-9", 40),
    Shape("jwt", ("eyJ",), _JWT),
    Shape(
        "private key",
        ("-----BEGIN ",),
        seq(_PEM_HEADER, _PEM_FIELDS, _PEM_BODY, _PEM_END),
        behind="any",
        is_one=_is_private,
    ),
    Shape(
        "bearer token",
        ("bearer ",),
        run("A-Za-z0-9._~+/=-", 16),
        kept=lit("bearer ", any_case=True),
        any_case=True,
        is_one=_has_digit,
    ),
    Shape(
        "basic credentials",
        ("basic ",),
        run("A-Za-z0-9+/=", 12),
        kept=lit("basic ", any_case=True),
        any_case=True,
        is_one=_is_basic,
    ),
    _url("password"),
    Shape(
        "password",
        _KEY_WORDS,
        run(f"^{_UNSHELLED}", 8, 400),
        kept=seq(_FIELD, _QUOTE),
        after=_QUOTE,
        behind="name",
        any_case=True,
        is_one=_is_quoted,
    ),
    Shape(
        "password",
        _KEY_WORDS,
        run(f"^{_UNSHELLED}", 8, 400),
        kept=_FIELD,
        ahead=r"(?![(\[{<$`])",
        behind="name",
        any_case=True,
        is_one=_is_bare,
    ),
)
"""Every shape, the most particular first: it names what several take for a secret."""
