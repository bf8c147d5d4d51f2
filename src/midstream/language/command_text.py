"""The text of a command of one's own, with what was typed behind its name put in. Pure.

`$ARGUMENTS` is all of it, `$1` to `$9` are its words; two words in quotes are one. A text that asks for
neither has them below it. What stands as !`command` is a shell's: it is told apart here and run elsewhere.

In a command a place means what it means to the shell: nothing in single quotes, else one word, whatever
stands in it. It is quoted for where it stands, and where quotes would not hold it, nothing is run.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from midstream.language.errors import UserMistake

_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?![0-9]))")
_WORD: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")
_EMBEDDED: Final = re.compile(r"(?<![\w\\`])!`([^`\n]+)`")
_TOOL: Final = re.compile(r"\b(?:Bash|execute_terminal)\b(?:\(([^)]*)\))?")
_PLAIN: Final = re.compile(r"[\w@%+:,./-]+", re.ASCII)
"""A word that is the same without quotes, where nothing touches it."""

_UNHELD: Final = re.compile(r"\(\(|\$[\['\"]|(?:^|(?<=[\s;&|()]))#")
_UNHELD_IN_QUOTES: Final = re.compile(r"\$[\[(]")
"""Behind these quotes mean something else: arithmetic, strings with escapes, comments, quotes in quotes."""


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """A command line whose output belongs in the text, where it stands."""

    command: str


Part: TypeAlias = str | Embedded


def parts(text: str, typed: str) -> tuple[Part, ...]:
    """Return the text in parts, what was typed put in. What is put in is not looked through again.

    Raises:
        UserMistake: something typed would stand in a command where quotes do not hold it.
    """
    typed = typed.strip()
    words = [next(filter(None, found), "") for found in _WORD.findall(typed)]

    def value(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return typed
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    found: list[Part] = []
    at, has_place = 0, bool(_PLACE.search(text))
    for embedded in _EMBEDDED.finditer(text):
        found.append(_PLACE.sub(value, text[at : embedded.start()]))
        found.append(Embedded(command=_for_shell(embedded[1].strip(), value)))
        at = embedded.end()
    rest = _PLACE.sub(value, text[at:]).rstrip()
    return (*found, f"{rest}\n\n{typed}" if typed and not has_place else rest)


def _for_shell(command: str, value: Callable[[re.Match[str]], str]) -> str:
    """Return a command with its places filled in, each as one word of the shell."""
    out: list[str] = []
    at, braces, is_double = 0, 0, False
    while at < len(command):
        here, end = command[at], at + 1
        place = _PLACE.match(command, at)
        if place is not None:
            if braces:
                raise _unheld(command, "${...}")
            end, word = place.end(), value(place)
            is_apart = command[at - 1 : at].isspace() and not command[end : end + 1].strip()
            if is_double:
                out.append(f'"{_quoted(word)}"')
            elif (
                word
            ):  # a word that is not there is nothing, and in quotes an empty one: as in a shell
                out.append(word if is_apart and _PLAIN.fullmatch(word) else _quoted(word))
        else:
            if here == "'" and not is_double:
                end = command.find("'", at + 1) + 1 or len(command)
            elif here == "\\" or command.startswith("$$", at):
                end = at + 2
            elif here == '"':
                is_double = not is_double
            elif command.startswith("${", at):
                braces += 1
            elif here == "}":
                braces = max(braces - 1, 0)
            found = (_UNHELD_IN_QUOTES if is_double else _UNHELD).match(command, at)
            if found is not None and _PLACE.search(command, at):
                raise _unheld(command, found[0])
            out.append(command[at:end])
        at = end
    return "".join(out)


def _unheld(command: str, where: str) -> UserMistake:
    return UserMistake(
        f"What is typed cannot be held by quotes behind {where!r}, so nothing is run: {command}",
        hint="Write the command so that $1 or $ARGUMENTS is a word of its own there.",
    )


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'"


def may_run(command: str, tools: str) -> bool:
    """Return whether the `allowed-tools` of a head leave a command in: they narrow, and allow nothing.

    `tools` names the shell's tool, alone or with the beginnings of commands: `Bash(git log:*), Read`.
    """
    for found in _TOOL.finditer(tools):
        wanted = (found[1] or "*").strip()
        beginning = wanted.removesuffix("*").removesuffix(":").rstrip()
        if wanted == command or not beginning:
            return True
        if wanted.endswith("*") and f"{command} ".startswith(f"{beginning} "):
            return True
    return False


def runs_commands(text: str) -> bool:
    """Return whether a text has commands in it."""
    return _EMBEDDED.search(text) is not None


def commands_in(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the command lines of a text, in order."""
    return tuple(part.command for part in parts if isinstance(part, Embedded))


def joined(parts: Sequence[Part], outputs: Sequence[str]) -> str:
    """Return the text with the output of each of its commands in its place."""
    left = iter(outputs)
    return "".join(part if isinstance(part, str) else next(left) for part in parts)
