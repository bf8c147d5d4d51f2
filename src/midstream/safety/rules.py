"""Rules and grants: texts `kind: pattern`, and which capabilities each of them covers.

    exec: git status           exactly this argv: `git status -s` is another one
    exec: git log *            these words, and any data after them, or none: no flag that writes,
                               executes or loads (see `flags`)
    exec: git ** push **       `**` stands for any number of words, a `*` before the end for one
    exec: grep '*' notes.txt   quoted, a `*` is only itself
    write: docs/**             paths from the workspace's root; `*` and `?` stay within a name
    write: docs/\\*             behind a backslash, a `*` is only itself
    net: *.example.org         every host below example.org, not it; with a port, that port alone;
                               `net: *` is every host, and what may reach any of them
    tool: mcp.github.*         names
    shell: make | tee log      exactly this line, every space of it; `shell: *` is every line
    outside: make test         that this runs outside the sandbox, beside its `exec`; written like one,
                               a line for a shell as `bash -c 'make | tee log'`

A capability's own text, read as a rule, covers that capability and no other: wildcards that a model
put into a file's name or a command stand in it quoted. So what a person granted is never wider than
what they saw.

What allows is matched to the letter, Unicode being composed (NFC). What asks or denies is matched
loosely: any spelling of a path that a file system could take for it, a program by its name wherever
it stands, behind `env` or `bash -c` or named in a line for a shell. Such a rule can still be got round
by a program that starts another; it is a seat belt.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from operator import eq, itemgetter
from typing import Final, NoReturn, TypeAlias, TypeVar, get_args

import msgspec

from midstream.language.errors import UserMistake, clip, did_you_mean
from midstream.safety.capability import STARTERS, Capability, Kind, quoted
from midstream.safety.protected import folded

MAX_CHARS: Final = 2_000
"""Characters of a rule. A grant may be longer; it then covers exactly its own capability."""


ANY_HOST: Final = "*"
"""The target of a `net` of what has the whole network: a command."""


class BadRule(UserMistake):
    """A text is no rule: what is wrong with it, and what to write instead."""


class _Wild(Enum):
    ONE = "one"
    MANY = "many"


_Chars: TypeAlias = tuple[str | _Wild, ...]
_Words: TypeAlias = tuple[str | _Wild, ...]
_Parts: TypeAlias = tuple["str | _Chars | _Wild", ...]

_P = TypeVar("_P")
_I = TypeVar("_I")


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule that was read. `text` is how it was written.

    `words` (of `exec` and `outside`), `parts` (of paths) or `chars` (of anything else) is what it compares;
    `loose_words` begin with the program without its folder.
    """

    text: str
    kind: Kind
    words: _Words = ()
    loose_words: _Words = ()
    parts: _Parts = ()
    chars: _Chars = ()

    @property
    def concerned(self) -> frozenset[Kind]:
        """Return the kinds of the capabilities it may be about, however they are spelled."""
        return _CONCERNED.get(self.kind, frozenset({self.kind}))

    @property
    def is_literal(self) -> bool:
        """Return whether it names one thing, without a wildcard."""
        if self.kind == "net":
            return not str(self.chars[0]).startswith("*")
        return not any(isinstance(each, _Wild | tuple) for each in self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.words or self.parts or self.chars

    def covers(self, capability: Capability) -> bool:
        """Return whether it is about this capability, to the letter."""
        if capability.kind != self.kind:
            return False
        match self.kind:
            case "exec" | "outside":
                return self._covers_words(_composed(capability.argv))
            case "read" | "write" | "write_protected":
                parts = _path_parts(capability.target)
                return parts is not None and _fits(self.parts, parts, _same_part)
            case "shell":
                whole = self.chars == (_Wild.MANY,)
                return whole or self.chars == (_nfc(capability.target),)
            case "net":
                return _covers_host(self.chars, capability.target)
            case "tool" | "ask_user":
                return _fits(self.chars, _nfc(capability.target), eq)

    def _covers_words(self, argv: tuple[str, ...]) -> bool:
        """Return whether an argv is what the words say; a wildcard stands for data alone."""
        first = self.words[0]
        if not argv or (first != argv[0] and first is not _Wild.MANY):
            return False
        if len(self.words) == 1 or self.is_literal:
            return first is _Wild.MANY or self.words == argv
        from midstream.safety.flags import data_in  # few commands get this far

        items = tuple(zip(argv, data_in(argv), strict=True))
        return _fits(self.words, items, lambda word, item: word == item[0], is_wild=itemgetter(1))

    def stops_at(self, capability: Capability) -> str:
        """Return the word of a command that no wildcard stands for, if only that keeps it uncovered."""
        argv = _composed(capability.argv)
        if capability.kind != self.kind or not argv or not _fits(self.words, argv, eq):
            return ""
        from midstream.safety.flags import data_in

        written = {word for word in self.words if isinstance(word, str)}
        words = zip(argv, data_in(argv), strict=True)
        return next((word for word, is_data in words if not is_data and word not in written), "")

    def concerns(self, capability: Capability) -> bool:
        """Return whether it may be about this capability, however it is spelled. See above."""
        match self.kind, capability.kind:
            case ("exec", "exec" | "outside") | ("outside", "outside"):
                for argv in _started(capability.argv):
                    if _fits(self.loose_words, argv, lambda a, b: a.casefold() == b.casefold()):
                        return True
                return any(self._is_mentioned(line) for line in _lines_within(capability.argv))
            case "exec", "shell":
                return self._is_mentioned(capability.target)
            case "shell", "exec":
                return self.chars == (_nfc(quoted(capability.argv)),)
            case (
                ("read", "read")
                | ("write_protected", "write_protected")
                | (
                    "write",
                    "write" | "write_protected",
                )
            ):
                return self.is_about(_folded_parts(capability.target))
            case "net", "net":
                return _concerns_host(self.chars, capability.target)
        return self.kind == capability.kind and self.covers(capability)

    def is_about(self, folded_parts: Sequence[str]) -> bool:
        """Return whether a rule on files is about a path, by its names, each `folded`."""
        return _fits(self.parts, folded_parts, _alike_part)

    def may_be_about_below(self, folded_parts: Sequence[str]) -> bool:
        """Return whether it could be about something in a folder of that path."""
        reached = {0}
        for name in folded_parts:
            reached = {
                at if self.parts[at] is _Wild.MANY else at + 1
                for at in self._with_none(reached)
                if _fits(self.parts[at : at + 1], (name,), _alike_part)
            }
        return bool(self._with_none(reached))

    def _with_none(self, reached: set[int]) -> set[int]:
        """Return the places in the pattern that can come next: a `**` may stand for no name."""
        found = set[int]()
        for start in reached:
            at = start
            while at < len(self.parts):
                found.add(at)
                if self.parts[at] is not _Wild.MANY:
                    break
                at += 1
        return found

    @property
    def globs(self) -> tuple[str, ...]:
        """Return globs for the paths it is about and what is below them, from the root, in any case.

        Written as git and ripgrep both read them: both compare bytes and fold the letters of ASCII.
        None where that would be other paths, and where it is about the whole workspace.
        """
        names = [_glob(part) for part in self.parts]
        if "" in names:
            return ()
        while names[-1:] == ["**"]:
            names.pop()
        whole = "/".join(names)
        return (whole, f"{whole}/**") if names else ()

    def _is_mentioned(self, line: str) -> bool:
        said = _mentioned(line)
        return all(
            _program(word) in said or word.casefold() in said
            for word in self.words
            if isinstance(word, str)
        )


def _glob(part: "str | _Chars | _Wild") -> str:
    """Return a name of a pattern as a glob, "" where a glob's `?` or letters would be others."""
    if isinstance(part, _Wild):
        return "**"
    found = ""
    for char in part:
        if char is _Wild.ONE or (isinstance(char, str) and not char.isascii()):
            return ""
        found += "*" if isinstance(char, _Wild) else _NOT_PLAIN.sub(r"\\\g<0>", char)
    return found


_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")


_CONCERNED: Final[dict[Kind, frozenset[Kind]]] = {
    "exec": frozenset({"exec", "shell", "outside"}),
    "shell": frozenset({"exec", "shell"}),
    "write": frozenset({"write", "write_protected"}),
}


def in_words(text: str) -> str:
    """Return a capability's text as a person reads it: one for every host says so."""
    return "net: any host" if text == _EVERY_HOST else text


_EVERY_HOST: Final = str(Capability(kind="net", target=ANY_HOST))
_WHOLE_NETWORK: Final = _EVERY_HOST.removeprefix("net: ")
"""The host of that: a command that has the network has all of it."""


def is_told_by_name(text: str) -> bool:
    """Return whether a yes to a whole tool, by its name, is one to the capability of this text.

    None is to files that decide what runs later, to leaving the sandbox, and to hosts; but an MCP
    server's tool is what the server reaches.
    """
    kind, _, target = text.partition(": ")
    if kind == "net":
        return target.startswith(MCP_HOST)
    return kind not in ("write_protected", "outside")


MCP_HOST: Final = "mcp__"
"""How the names of MCP servers' tools begin, and the host that stands for all that a server reaches."""


def covers(granted: Sequence[str], capability: Capability) -> bool:
    """Return whether one of the texts a person granted covers the capability, to the letter.

    A text that is no rule covers the capability whose text it is, and nothing else.
    """
    own = _nfc(str(capability))
    for text in granted:
        if _nfc(text) == own:
            return True
        rule = known_rule(text)
        if rule is not None and rule.covers(capability):
            return True
    return False


def capability_of(text: str) -> Capability | None:
    """Return the capability whose own text this is, None where it is that of none."""
    rule = known_rule(text)
    if rule is None or not rule.is_literal:
        return None
    words = tuple(word for word in rule.words if isinstance(word, str))
    match rule.kind:
        case "exec" | "outside":
            target = quoted(words)
        case "read" | "write" | "write_protected":
            target = "/".join(part for part in rule.parts if isinstance(part, str)) or "."
        case "net":
            whole = rule.chars == (_WHOLE_NETWORK, "")
            target = ANY_HOST if whole else ":".join(str(part) for part in rule.chars if part)
        case _:
            target = "".join(char for char in rule.chars if isinstance(char, str))
    found = Capability(kind=rule.kind, target=target, argv=words)
    return found if str(found) == text else None


@lru_cache(maxsize=2048)
def known_rule(text: str) -> Rule | None:
    """Return the rule a text says, None when it says none."""
    try:
        return read_rule(text)
    except BadRule:
        return None


_RULE = re.compile(r"([^:\s]+): ?(.*)", re.DOTALL)
_BAD_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


def read_rule(text: str) -> Rule:
    """Return the rule a text such as `exec: git status` says.

    Raises:
        BadRule: it says none; the hint tells what to write.
    """
    if len(text) > MAX_CHARS:
        _refuse(text, f"it has {len(text):,} characters; {MAX_CHARS:,} are allowed")
    match = _RULE.fullmatch(text)
    if text.startswith("sandboxed "):
        hint = "Leave out `sandboxed`: `exec: ...` is about the sandbox, `outside: ...` about leaving it."
        _refuse(text, "it is of an older version", hint)
    if match is None:
        _refuse(text, "it is not of the form `kind: pattern`", 'Such as "exec: git status".')
    kind, pattern = match.groups()
    known = next((each for each in _KINDS if each == kind), None)
    if known is None:
        _refuse(text, f'there is no kind "{clip(kind)}"', did_you_mean(kind, _KINDS))
    if not pattern.strip():
        _refuse(text, "there is nothing after the colon", f'"{kind}: *" means everything.')
    rule = Rule(text=text, kind=known)
    if kind == "shell":
        return msgspec.structs.replace(rule, chars=_line(_nfc(pattern)))
    if _BAD_CHARS.search(pattern):
        _refuse(text, "it holds a control character", "Leave it out, or use a wildcard.")
    if pattern != pattern.strip():
        _refuse(text, "there are spaces around the pattern", "Leave them out.")
    pattern = _nfc(pattern)
    match kind:
        case "exec" | "outside":
            words = _read_words(text, pattern)
            first = _program(words[0]) if isinstance(words[0], str) else words[0]
            return msgspec.structs.replace(rule, words=words, loose_words=(first, *words[1:]))
        case "read" | "write" | "write_protected":
            return msgspec.structs.replace(rule, parts=_read_path(text, pattern))
        case "net":
            return msgspec.structs.replace(rule, chars=_read_host(text, pattern))
    return msgspec.structs.replace(rule, chars=_read_chars(pattern, ask_one=False))


def _refuse(text: str, why: str, hint: str = "") -> NoReturn:
    raise BadRule(f'"{clip(text)}" is not a rule: {why}.', hint=hint)


def _nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


# --- wildcards ------------------------------------------------------------------------------


def _fits(
    pattern: Sequence[_P | _Wild],
    items: Sequence[_I],
    is_same: Callable[[_P, _I], bool],
    *,
    is_wild: Callable[[_I], bool] = lambda _item: True,
) -> bool:
    """Return whether items are what a pattern says, in at most their product of steps.

    What `MANY` took is given back one item at a time, and only by the last of them: if the rest
    fits at all, it fits behind the first place where the part before it did. A wildcard stands only
    for what `is_wild` says it may.
    """
    if pattern and items:
        first = pattern[0]
        if not isinstance(first, _Wild) and not is_same(first, items[0]):
            return False
    at = on = 0
    many, taken = -1, 0
    while on < len(items):
        wanted = pattern[at] if at < len(pattern) else None
        if wanted is _Wild.MANY:
            many, taken = at, on
            at += 1
        elif (wanted is _Wild.ONE and is_wild(items[on])) or (
            wanted is not None and not isinstance(wanted, _Wild) and is_same(wanted, items[on])
        ):
            at, on = at + 1, on + 1
        elif many >= 0 and is_wild(items[taken]):
            taken += 1
            at, on = many + 1, taken
        else:
            return False
    return all(each is _Wild.MANY for each in pattern[at:])


def _read_chars(pattern: str, *, ask_one: bool = True) -> _Chars:
    """Return a pattern's characters; `*` is any number of them, `?` any one, `\\*` a star."""
    chars: list[str | _Wild] = []
    is_escaped = False
    for char in pattern:
        if is_escaped:
            chars.append(char)
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == "*":
            chars.append(_Wild.MANY)
        elif char == "?" and ask_one:
            chars.append(_Wild.ONE)
        else:
            chars.append(char)
    return tuple(chars) if not is_escaped else (*chars, "\\")


# --- lines for a shell ----------------------------------------------------------------------

_STARRED = re.compile(r"\\+\*")


def _line(pattern: str) -> _Chars:
    if pattern == "*":
        return (_Wild.MANY,)
    return (pattern[1:] if _STARRED.fullmatch(pattern) else pattern,)


_BETWEEN = re.compile(r"[\s;|&()<>{}`$=,!]+")
_QUOTES = re.compile(r"[\"'\\]")


@lru_cache(maxsize=256)
def _mentioned(line: str) -> frozenset[str]:
    """Return the words of a line, and the last names of those that are paths, in small letters."""
    bare, parted = _QUOTES.sub("", line), _QUOTES.sub(" ", line)
    words = {word for text in (bare, parted) for word in _BETWEEN.split(text.casefold()) if word}
    return frozenset(words | {_program(word) for word in words})


_OBSCURE = re.compile(r"[$`\\*?\[{!\n]|(?<![\w.-])(?:eval|source|exec|\.)(?![\w./-])")


def is_obscure(line: str) -> bool:
    """Return whether a line for a shell may start what it does not name: `$(...)`, `gi? push`."""
    return bool(_OBSCURE.search(line))


# --- commands -------------------------------------------------------------------------------

_WORD = re.compile(r"'([^']*)'|\"([^\"\\$`]*)\"|([^\s'\"\\]+)")
_SHELLS_OWN = re.compile(r"[$`|&;<>()]")


def _read_words(text: str, pattern: str) -> _Words:
    words: list[str | _Wild] = []
    for start, end, raw in _raw_words(text, pattern):
        if raw == [("plain", "*")]:
            is_last = end == len(pattern)
            words.append(_Wild.MANY if is_last else _Wild.ONE)
        elif raw == [("plain", "**")]:
            words.append(_Wild.MANY)
        else:
            for how, piece in raw:
                if how == "plain" and "*" in piece:
                    hint = "Write '*' in quotes for the character itself."
                    _refuse(
                        text, f"in `{clip(pattern[start:end])}` a * is not a word by itself", hint
                    )
                if how == "plain" and _SHELLS_OWN.search(piece):
                    hint = "Use `shell: ...` for a shell line, or quote the character."
                    _refuse(text, f"`{clip(piece)}` means something to a shell", hint)
            words.append("".join(piece for _, piece in raw))
    return tuple(words)


def _raw_words(text: str, pattern: str) -> list[tuple[int, int, list[tuple[str, str]]]]:
    """Return each word of a pattern: where it begins and ends, and its pieces, quoted or plain."""
    found: list[tuple[int, int, list[tuple[str, str]]]] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == " ":
            at += 1
            continue
        start, pieces = at, list[tuple[str, str]]()
        while at < len(pattern) and pattern[at] != " ":
            match = _WORD.match(pattern, at)
            if match is None:
                _refuse(text, f"a quote is not closed, or it contains a backslash, at {at + 1}")
            single, double, plain = match.groups()
            how = "quoted" if plain is None else "plain"
            pieces.append((how, next(each for each in (single, double, plain) if each is not None)))
            at = match.end()
        found.append((start, at, pieces))
    return found


@lru_cache(maxsize=64)
def _composed(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_nfc, argv))


def _program(word: str) -> str:
    """Return the name of a program without its folder, as any file system could take it."""
    return word.rpartition("/")[2].casefold() or word.casefold()


@lru_cache(maxsize=64)
def _started(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the argv, and those it may start, each with the bare name of its program."""
    if not argv:
        return []
    argv = _composed(argv)
    bare = [(_program(argv[0]), *argv[1:])]
    if _program(argv[0]) in STARTERS:
        bare += [
            (_program(argv[at]), *argv[at + 1 :])
            for at in range(1, min(len(argv), 40))
            if not argv[at].startswith("-")
        ]
    return bare


def _lines_within(argv: tuple[str, ...]) -> list[str]:
    """Return the arguments that are lines of their own: `bash -c "git push"`."""
    if not argv or _program(argv[0]) not in STARTERS:
        return []
    return [word for word in argv[1:] if " " in word]


# --- paths ----------------------------------------------------------------------------------


def _read_path(text: str, pattern: str) -> _Parts:
    if pattern == ".":
        return ()
    if pattern.startswith(("/", "~")):
        _refuse(text, "a path begins at the workspace's root", "Write it without the first part.")
    names = pattern.split("/")
    if names[-1] == "":
        _refuse(text, "it ends in a slash", f'"{clip(pattern)}**" is everything in it.')
    if any(name in ("", ".", "..") for name in names):
        _refuse(text, "`.`, `..` and empty names are not allowed", "Write the path without them.")
    return tuple(map(_read_name, names))


def _read_name(name: str) -> "str | _Chars | _Wild":
    if name == "**":
        return _Wild.MANY
    chars = _read_chars(name)
    if any(isinstance(char, _Wild) for char in chars):
        return chars
    return "".join(char for char in chars if isinstance(char, str))


@lru_cache(maxsize=64)
def _folded_parts(path: str) -> tuple[str, ...]:
    return tuple(folded(part) for part in path.split("/") if part.strip("."))


@lru_cache(maxsize=64)
def _path_parts(path: str) -> tuple[str, ...] | None:
    """Return a path's names, composed, None when it does not stay below the root."""
    if path == ".":
        return ()
    parts = tuple(_nfc(path).split("/"))
    return None if any(part in ("", ".", "..") for part in parts) else parts


def _same_part(wanted: Sequence[str | _Wild], found: str) -> bool:
    if isinstance(wanted, str):
        return wanted == found
    return _fits(wanted, found, eq)


def _alike_part(wanted: Sequence[str | _Wild], found: str) -> bool:
    """Compare with a name that is folded already."""
    if isinstance(wanted, str):
        return folded(wanted) == found
    loose: list[str | _Wild] = []
    for char in wanted:
        loose += [char] if isinstance(char, _Wild) else folded(char)
    return _fits(loose, found, eq)


# --- hosts ----------------------------------------------------------------------------------

_HOST = re.compile(
    r"(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?"
)


def _read_host(text: str, pattern: str) -> _Chars:
    """Return a host pattern as (host, port); port "" is every one."""
    if pattern == _WHOLE_NETWORK:
        return pattern, ""
    match = _HOST.fullmatch(pattern.lower())
    if not pattern.isascii():
        _refuse(text, "a host is written in ASCII", "Write the xn-- form your browser copies.")
    if match is None:
        hint = 'A host such as "docs.python.org", "*.example.org" for all below, or "*".'
        _refuse(text, f'"{clip(pattern)}" is no host', hint)
    name, port = host_of(pattern) or (match.group(1), match.group(2) or "")
    return name, port


def host_of(text: str) -> tuple[str, str] | None:
    """Return a host's name and port in the one form they are compared in, None for what is no host.

    The port is "" where there is none. An address has one spelling: `[::ffff:7f00:1]` is 127.0.0.1. What
    a resolver takes for an address that is not written as one (`127.1`, `0x7f.1`) is no host.
    """
    match = _HOST.fullmatch(text.lower().replace(".:", ":").removesuffix("."))
    if match is None or not text.isascii() or "*" in text:
        return None
    name, port = match.group(1), match.group(2) or ""
    if port and not 0 < int(port) < 65_536:
        return None
    if name.startswith("[") or _NUMBER.fullmatch(name.rpartition(".")[2]):
        spelled = _address(name.strip("[]"))
        if spelled is None or name.startswith("[") != (":" in name):
            return None
        name = spelled
    return name, port.lstrip("0")


_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")


def _address(text: str) -> str | None:
    import ipaddress  # only for the few hosts that may be addresses

    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or f"[{found}]")
    return str(found)


WEB_PORTS: Final = ("80", "443")
"""What a command that names a host without a port may reach of it."""


def _covers_host(wanted: _Chars, target: str) -> bool:
    if target == ANY_HOST:
        return wanted in (("*", ""), (_WHOLE_NETWORK, ""))
    found = host_of(target)
    if found is None:
        return False
    name, port = wanted
    assert isinstance(name, str)
    if port and port != found[1]:
        return False
    if name in ("*", found[0]):
        return True
    # Below an address there is nothing.
    return name.startswith("*.") and found[0].endswith(name[1:]) and not found[0].startswith("[")


def _concerns_host(wanted: _Chars, target: str) -> bool:
    name, port = wanted
    if port in WEB_PORTS and (found := host_of(target)) is not None and not found[1]:
        port = ""
    return _covers_host((name, port), target)
