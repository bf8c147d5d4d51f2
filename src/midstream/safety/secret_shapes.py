r"""What secrets look like: keys by their makers' prefixes, tokens, passwords by what stands before.

A shape is a small language, written as pieces. Each piece knows two patterns: of its texts, and of
whatever may still become one of them. The second is what lets a stream be looked through as it
comes: only what may still become a secret has to wait.

    shape              a key     sk-…                      `kept`: "sk-" is part of the secret
    kept + secret      a field   password = "…"            only what is in the quotes is taken out
    kept + secret + after        ://user:…@                and only if an @ follows

**A text is looked through in time that grows with its length, whoever wrote it.** So a shape is decided
within `WINDOW` characters, no pattern goes back on what it has taken (`{…}+`), and what was looked at
and is none is not looked at again from each place in it where another could begin: either none of
those is one, for the same reason, or the first of them that may be is named (`Shape.again`).

**A shape never spans what a shell reads as more than one word** (the one exception, the body of a PEM
block, is words of sixteen characters and more): a command cannot hide from whoever approves it
behind what looks like a secret.

Ordinary code is full of names such as `token` and `password`. So what follows them is taken for a
secret only if it looks like one: letters and digits in it, and no path, name or placeholder. A
password that is made of words alone is not recognised.
"""

import re
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Final, NamedTuple

from midstream.safety.match_places import Finder, finder, loosened

WINDOW: Final = 512
"""Characters of a key within which it is seen to be one. Those that follow belong to it."""

_OVERLAP: Final = 128
"""Characters at the end of a window that are looked at again: a key of that length is missed nowhere."""

_HEADER: Final = 4_096
"""Characters of the first part of a JWT, which may hold certificates."""


class Piece(NamedTuple):
    """A part of a shape: the pattern of its texts, and of what may become one (up to the end)."""

    full: str
    part: str


def lit(text: str) -> Piece:
    """Return exactly this text."""
    part = ""
    for char in reversed(text):
        part = f"(?:{re.escape(char)}{part})?+"
    return Piece(re.escape(text), rf"{part}\Z")


def run(chars: str, least: int, most: int | None = None) -> Piece:
    """Return characters of a class, as many as there are. A shorter run is none."""
    upto = "" if most is None else most
    return Piece(f"[{chars}]{{{least},{upto}}}+", rf"[{chars}]{{0,{upto}}}+\Z")


def seq(*pieces: Piece) -> Piece:
    """Return the pieces one after the other."""
    part = pieces[-1].part
    for piece in reversed(pieces[:-1]):
        part = f"(?:{piece.part}|{piece.full}{part})"
    return Piece("".join(piece.full for piece in pieces), part)


def either(*pieces: Piece) -> Piece:
    """Return one of the pieces, the first that fits."""
    return Piece(
        f"(?>{'|'.join(piece.full for piece in pieces)})",
        f"(?:{'|'.join(piece.part for piece in pieces)})",
    )


def maybe(piece: Piece) -> Piece:
    """Return the piece, or nothing."""
    return Piece(f"(?:{piece.full})?+", rf"(?:{piece.part}|\Z)")


def many(piece: Piece, most: int | None = None) -> Piece:
    """Return the piece up to so many times. No text of it may be the beginning of another."""
    times = f"{{0,{'' if most is None else most}}}+"
    return Piece(f"(?:{piece.full}){times}", f"(?:{piece.full}){times}{piece.part}")


NOTHING: Final = Piece("", r"\Z")


def any_of(words: Collection[str], written: Callable[[str], str] = re.escape) -> Piece:
    """Return any of some words. Looked for as a tree they are found fast.

    Args:
        words: those, in lower case.
        written: returns the pattern of one of their characters.
    """
    nexts: dict[str, list[str]] = {}
    for word in filter(None, words):
        nexts.setdefault(word[0], []).append(word[1:])
    if not nexts:
        return NOTHING
    inner = [(written(char), any_of(rests, written)) for char, rests in nexts.items()]
    full = "|".join(char + piece.full for char, piece in inner)
    part = "|".join(char + piece.part for char, piece in inner)
    return Piece(f"(?:{full}){'?' if '' in words else ''}", rf"(?:{part}|\Z)")


class Shape:
    """One kind of secret, or several that are known by the same characters.

    Of two that overlap the first reaches as far as the other: once one is found, or none is, nobody
    looks for another in the same characters.
    """

    def __init__(
        self,
        holds: tuple[str, ...],
        full: str,
        name: Callable[[re.Match[str]], str | None],
        *,
        opening: str,
        reach: int,
        goes_on: Piece | None = None,
        grows: bool = False,
        again: Callable[[re.Match[str]], int] = re.Match.end,
        likely: tuple[str, int] | None = None,
    ) -> None:
        """Make one.

        Args:
            holds: texts, in lower case, with one of which every one begins.
            full: the pattern; its group `secret` is what is taken out.
            name: returns what one is called, None for what is none after all.
            opening: the pattern, up to the end of a text, of what is too short yet for `full`.
            reach: the most characters of those.
            goes_on: what follows one and belongs to it.
            grows: whether one stays one, whatever follows. It need not wait for its end.
            again: returns where to look on after what is none.
            likely: a pattern for RE2 (see `places`) that fits wherever there is one, and seldom else;
                and the most characters, from there on, by which it is decided that there is.
        """
        self.holds = holds
        self.name = name
        self.reach = reach
        self.grows = grows
        self.again = again
        self._full = full
        self._opening = opening
        self._goes_on = goes_on
        self._likely = likely

    @cached_property
    def full(self) -> re.Pattern[str]:
        """The pattern of one."""
        return re.compile(self._full)

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """The pattern of what may still become one."""
        return re.compile(self._opening)

    @cached_property
    def loose(self) -> str:
        """The pattern for RE2 of where one may begin."""
        return loosened(self._full)

    @cached_property
    def loose_opening(self) -> str:
        """The pattern for RE2 of where what may still become one may begin; it fits nothing, too."""
        return loosened(self._opening)

    def next(self, outline: bytes, at: int, *, is_whole: bool) -> int:
        """Return where one may begin next, from a place on; -1 if nowhere."""
        if self._likely is not None:
            found = self._find_likely(outline, at)
            if is_whole:
                return found
            until = len(outline) - self._likely[1]
            if 0 <= found < until:
                return found
            # Of what the end cuts off nobody knows yet what it is.
            at = max(at, until)
        return self._find_loose(outline, at)

    @cached_property
    def _find_likely(self) -> Finder:
        assert self._likely is not None
        return finder(self._likely[0])

    @cached_property
    def _find_loose(self) -> Finder:
        return finder(self.loose)

    @cached_property
    def goes_on(self) -> tuple[re.Pattern[str], re.Pattern[str]] | None:
        """The pattern of what follows, and that of what may still become more of it."""
        piece = self._goes_on
        return None if piece is None else (re.compile(piece.full), re.compile(piece.part))


# --- what looks like one ------------------------------------------------------------------------

_STANDS_FOR_ONE: Final = (
    r"(?ai:your|example|sample|dummy|change|insert|replace|placeholder|redacted|x{4})"
)
_PLACEHOLDER: Final = re.compile(rf"{_STANDS_FOR_ONE}|\*+\Z|\.+\Z|(.)\1*\Z")
_WORDS: Final = re.compile(r"[A-Za-z]++(?:[-_.:/][A-Za-z]++)++[-_.]?[0-9]{0,2}")
_NAME: Final = re.compile(r"[A-Za-z_][a-z_]*+[0-9]?(?:\.[A-Za-z_][A-Za-z_0-9]*+)*+[0-9]{0,2}")
_CHANGES: Final = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")
_SPECIAL: Final = re.compile(r"[!@#%^*+/=]")
_THREE_DIGITS: Final = re.compile(r"(?:[^0-9]*+[0-9]){3}")
_CAPITAL: Final = re.compile(r"[A-Z]")
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9]{16}")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")


def _has_both(text: str) -> bool:
    return _DIGIT.search(text) is not None and _LETTER.search(text) is not None


def _is_mixed(text: str) -> bool:
    return text != text.lower() and text != text.upper()


def _is_key(text: str) -> bool:
    """Tell a key from names with dashes, such as a style sheet's."""
    return _THREE_DIGITS.match(text) is not None and (
        _CAPITAL.search(text) is not None or _LONG_WORD.search(text) is not None
    )


def _before_the_overlap(found: re.Match[str]) -> int:
    end = found.end()
    return end if end - found.start() < WINDOW else end - _OVERLAP


# --- the shapes ---------------------------------------------------------------------------------

_ALNUM: Final = "A-Za-z0-9"
_B64URL: Final = "-A-Za-z0-9_"
_BASE64: Final = "A-Za-z0-9+/="
_WORD: Final = r"(?<!\w)"


def _any_case(text: str) -> str:
    return "".join(f"[{char}{char.upper()}]" if char.isalpha() else char for char in text)


def _keys(
    chars: str,
    *keys: tuple[str, str, int],
    is_one: Callable[[str], bool] = _has_both,
    called: dict[str, str] | None = None,
) -> Shape:
    """Return the shape of keys that begin with a text of their maker's.

    Of a key within another of the shape the end is the same. So that holds what a key begins with is
    made of its characters, or nothing that may stand before a key is one of them.

    Args:
        keys: what each is called, how it begins, and how many characters follow at the least.
        is_one: tells one; whatever follows and whatever came before it, it stays one.
        called: other names, by how they begin.
    """
    names = {**(called or {}), **{start: name for name, start, _ in keys}}
    fulls = [
        rf"{re.escape(start)}(?<!\w{re.escape(start)})[{chars}]{{{least},{WINDOW}}}+"
        for _, start, least in keys
    ]
    parts = [seq(lit(start), run(chars, 0, least - 1)).part for _, start, least in keys]

    def name(found: re.Match[str]) -> str | None:
        text = found[0]
        return next(names[s] for s in names if text.startswith(s)) if is_one(text) else None

    return Shape(
        tuple(start.lower() for _, start, _ in keys),
        f"(?P<secret>{'|'.join(fulls)})",
        name,
        opening=f"(?=[{''.join({start[0] for _, start, _ in keys})}]){_WORD}(?:{'|'.join(parts)})",
        reach=max(len(start) + least for _, start, least in keys),
        goes_on=run(chars, 0),
        grows=True,
        again=_before_the_overlap,
    )


def _after(
    name: str,
    start: str,
    chars: str,
    least: int,
    is_one: Callable[[str], bool],
    *,
    grows: bool = True,
) -> Shape:
    """Return the shape of what follows a text that is kept."""
    any_case = _any_case(start)
    follows = f"[{chars}]{{{least},{WINDOW}}}+"
    # Both cases of a first letter are looked for at once; what stands before it is looked at after.
    return Shape(
        (start,),
        rf"{any_case}(?<!\w{any_case})(?P<secret>{follows})",
        lambda found: name if is_one(found["secret"]) else None,
        opening=f"(?=[{start[0]}{start[0].upper()}]){_WORD}"
        rf"(?ai:{seq(lit(start), run(chars, 0, least - 1)).part})",
        reach=len(start) + least,
        goes_on=run(chars, 0),
        grows=grows,
        again=_before_the_overlap,
    )


def _is_basic(text: str) -> bool:
    return _is_mixed(text) and len(text) % 4 == 0


_JWT: Final = Shape(
    ("eyj",),
    rf"(?P<secret>eyJ(?<!\weyJ)[{_B64URL}]{{10,{_HEADER}}}+"
    rf"(?:\.(?:[{_B64URL}]{{10,{WINDOW}}}+|[{_B64URL}]*+\Z))?+)",
    lambda found: "jwt" if len(found[0].partition(".")[2]) >= 10 else None,
    opening=rf"(?=e){_WORD}(?:{seq(lit('eyJ'), run(_B64URL, 0, 9)).part})",
    reach=12,
    goes_on=many(seq(run(r"\.", 0, 2), run(_B64URL, 1))),
    grows=True,
    again=lambda found: found.end() - (_OVERLAP if len(found[0]) >= _HEADER else 0),
    likely=(rf"\beyJ[{_B64URL}]{{10,}}?\.[{_B64URL}]{{10}}", _HEADER + WINDOW + 8),
)

_GAP: Final = either(run(r"\s", 1, 8), seq(lit("\\"), run("nr", 1, 1)))
_GAPS: Final = many(_GAP, 4)
_PEM: Final = seq(
    lit("-----BEGIN "),
    run("A-Z0-9 ", 0, 60),
    lit("-----"),
    _GAPS,
    maybe(
        seq(
            lit("Proc-Type: 4,ENCRYPTED"),
            _GAPS,
            maybe(seq(lit("DEK-Info: "), run("A-Z0-9,-", 1, 100), _GAPS)),
        )
    ),
    run(_BASE64, 16, WINDOW),
)
_PEM_LINES: Final = seq(run(_BASE64, 0), many(seq(_GAPS, run(_BASE64, 16))))
_PEM_END: Final = seq(
    maybe(seq(_GAPS, run(_BASE64, 1, 15))),
    _GAPS,
    lit("-----END "),
    run("A-Z0-9 ", 0, 60),
    lit("-----"),
)


def _private(found: re.Match[str]) -> str | None:
    header = found["secret"][:80]
    is_one = "PRIVATE KEY-----" in header or "PRIVATE KEY BLOCK-----" in header
    return "private key" if is_one else None


_COMMON_PASSWORDS: Final = frozenset(
    {"pass", "password", "passwd", "pw", "secret", "postgres", "root", "guest", "admin", "user"}
)
_URL_PART: Final = r"""^\s/:@?#"'`$<>{}()\[\];|&\\"""
_URL: Final = seq(lit("://"), run(_URL_PART, 0, 200), lit(":"), run(_URL_PART, 1, 400))


def _url_password(found: re.Match[str]) -> str | None:
    text = found["secret"]
    is_one = (
        len(text) >= 3
        and text.lower() not in _COMMON_PASSWORDS
        and text != found["user"]
        and _PLACEHOLDER.match(text) is None
    )
    return "password" if is_one else None


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
_FIELD: Final = seq(maybe(_QUOTE), _SPACE, run(":=", 1, 2), maybe(lit(">")), _SPACE, maybe(_QUOTE))
_UNSHELLED: Final = r"""^\s"'`$<>{}()\[\];|&\\,"""
"""What a secret behind a name is made of: nothing by which a shell could read more than a word."""

_LONGEST_FIELD: Final = 400
_LONGEST_NAME: Final = 24
"""Characters of the longest name, and of what may stand between it and its secret and be of either."""


def _named(pattern_of: Callable[[Piece], str]) -> str:
    """Return the pattern of what begins with one of the names.

    Its first letter is looked for, then what stands before it: no letter, unless a capital begins a
    part of a name there, as in `dbPassword`.
    """
    rests: dict[str, list[str]] = {}
    for word in _KEY_WORDS:
        rests.setdefault(word[0], []).append(word[1:])
    firsts = "".join(rests)
    branches = (
        f"(?<=[{first}{first.upper()}]){pattern_of(any_of(words, _any_case))}"
        for first, words in rests.items()
    )
    return (
        rf"[{firsts}{firsts.upper()}](?:(?<![^\W\d_].)|(?<=[^\W\d_A-Z][A-Z]))"
        f"(?:{'|'.join(branches)})"
    )


def _is_quoted(found: re.Match[str]) -> bool:
    return found["kept"].endswith(('"', "'"))


def _field_secret(found: re.Match[str]) -> str | None:
    text, kept, closing = found.group("secret", "kept", "closing")
    if not _has_both(text):
        return None
    if _is_quoted(found):
        is_one = closing.endswith(('"', "'"))
    else:
        is_one = (closing != "" or found.string[found.end() : found.end() + 1] not in _OPENS) and (
            (kept.endswith("=") and kept.isupper())  # as an environment's is written
            or (
                (
                    _is_mixed(text)
                    or _SPECIAL.search(text) is not None
                    or len(_CHANGES.findall(text)) >= 3
                )
                and _NAME.fullmatch(text) is None
            )
        )
    return "password" if is_one and _WORDS.fullmatch(text) is None else None


_OPENS: Final = tuple("([{<$`")


def _field_again(found: re.Match[str]) -> int:
    """Return where another field may begin in what is no secret behind a field."""
    text = found["secret"]
    start, end = found.span("secret")
    if _has_both(text):
        if _is_quoted(found) and not found["closing"]:
            return start
        if _WORDS.fullmatch(text) is not None:
            # Words after words are words, too, but for a single one.
            return max(start, found.string.rfind(":", start, end) - 20)
    # Its end may be the name of another.
    return max(start, found.end() - (_OVERLAP if len(text) == _LONGEST_FIELD else _LONGEST_NAME))


def _likely_field() -> str:
    """Return the pattern for RE2 of a field with a digit, or too long to look for one.

    An automaton that looked further, from each of many names, had to count too much.
    """
    one = f"[{_UNSHELLED}]"
    digit = f"(?:{one}{{8}}|{one}{{0,7}}?[0-9?])"
    for rest in range(8):
        other = one if rest < 7 else f"[{_UNSHELLED}/~]"  # a path is none
        digit = f"(?:[0-9?]{one}{{{rest}}}|{other}{digit})"
    return loosened(_named(lambda words: words.full) + _FIELD.full) + digit


_PASSWORD: Final = Shape(
    _KEY_WORDS,
    f"(?P<kept>{_named(lambda words: words.full)}{_FIELD.full})"
    rf"(?!/|\.{{1,2}}/|~|https?:|{_STANDS_FOR_ONE})"
    f"(?P<secret>[{_UNSHELLED}]{{8,{_LONGEST_FIELD}}}+)"
    r"(?P<closing>\\{0,3}+(?:[\"']|\Z)|)",
    _field_secret,
    opening=_named(lambda words: seq(words, _FIELD, run(_UNSHELLED, 0, 7)).part),
    reach=48,
    goes_on=run(_UNSHELLED, 0),
    again=_field_again,
    likely=(_likely_field(), 96),
)

SHAPES: Final = (
    _keys(_B64URL, ("openai key", "sk-", 20), called={"sk-ant-": "anthropic key"}, is_one=_is_key),
    _keys(
        _B64URL,
        ("google key", "AIza", 30),
        ("google secret", "GOCSPX-", 20),
        ("gitlab token", "glpat-", 20),
        ("pypi token", "pypi-", 40),
    ),
    _keys(_B64URL, ("google token", "ya29.", 20)),
    Shape(
        ("akia", "asia", "abia", "acca"),
        r"(?P<secret>A(?<!\wA)(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}+(?!\w))",
        lambda found: "aws key id" if _has_both(found[0]) else None,
        opening=rf"(?=A){_WORD}(?:"
        + "|".join(
            seq(lit(start), run("A-Z0-9", 0, 16)).part for start in ("AKIA", "ASIA", "ABIA", "ACCA")
        )
        + ")",
        reach=20,
    ),
    _keys(
        _ALNUM,
        *(("github token", start, 30) for start in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
        *(
            ("stripe key", f"{kind}_{for_}_", 16)
            for kind in ("sk", "rk")
            for for_ in ("live", "test")
        ),
        ("npm token", "npm_", 36),
        ("groq key", "gsk_", 30),
        ("xai key", "xai-", 30),
        ("digitalocean token", "dop_v1_", 40),
    ),
    _keys(_ALNUM, ("hugging face token", "hf_", 30), is_one=lambda text: True),
    _keys(_ALNUM + "_", ("github token", "github_pat_", 22)),
    _keys(
        _ALNUM + "-",
        *(("slack token", f"xox{kind}-", 10) for kind in "abeprs"),
        ("slack token", "xapp-", 10),
    ),
    _keys(_ALNUM + "-", ("slack token", "xoxe.", 10)),
    _keys(_BASE64, ("stripe secret", "whsec_", 20)),
    _keys(_B64URL + ".", ("sendgrid key", "SG.", 40)),
    _JWT,
    _after("slack webhook", "hooks.slack.com/services/", _ALNUM + "/_", 20, lambda text: True),
    _after("bearer token", "bearer ", _ALNUM + "._~+/=-", 16, _has_both),
    _after("basic credentials", "basic ", _BASE64, 12, _is_basic, grows=False),
    Shape(
        ("-----begin ",),
        f"(?P<secret>{_PEM.full})",
        _private,
        opening=f"(?=-)(?:{_PEM.part})",
        reach=360,
        goes_on=seq(_PEM_LINES, maybe(_PEM_END)),
        grows=True,
    ),
    Shape(
        ("://",),
        rf"://(?P<user>[{_URL_PART}]{{0,200}}+):(?P<secret>[{_URL_PART}]{{1,400}}+)@",
        _url_password,
        opening=f"(?=:)(?:{_URL.part})",
        reach=604,
        grows=True,
        likely=(loosened(_URL.full.replace("{1,400}", "{3,400}") + "@"), 608),
    ),
    _PASSWORD,
)
"""Every shape. Of two that begin at the same place, the first says what was taken out."""
