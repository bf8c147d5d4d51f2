"""A command line, read: an argv that needs no shell, or a line only a shell can read.

Of all that bash knows, only words and quotes are read here, and only where they mean the same to
every shell in every setting. Whatever else stands in a line makes it a `shell` capability, which is
judged as a whole: nothing is guessed about it. So the argv of an `exec` is exactly what bash would
have started, and it is started without bash.
"""

import re
from typing import Final

from midstream.safety.capability import Capability, quoted

MAX_WORDS: Final = 200

_PIECE = re.compile(
    r"""
    ' ([\x20-\x26\x28-\x7e]*) '                     # as it is
    | " ([\x20\x23\x25-\x5b\x5d-\x5f\x61-\x7e]*) "  # without  ! " $ \ `
    | ( [A-Za-z0-9_./:=+,@%^-]
        (?: [A-Za-z0-9_./:=+,@%^-] | (?<=[A-Za-z0-9_^}~-]) ~ )* )
    """,
    re.VERBOSE,
)
_SHELLS_WORDS: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "select", "function", "coproc", "time", "alias", "unalias", "bg", "fg"),
        *("bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt"),
        *("continue", "declare", "typeset", "dirs", "popd", "pushd", "disown", "enable", "eval"),
        *("exec", "exit", "export", "fc", "getopts", "hash", "help", "history", "jobs", "let"),
        *("local", "logout", "mapfile", "readarray", "read", "readonly", "return", "set", "shift"),
        *("shopt", "source", "suspend", "times", "trap", "type", "ulimit", "umask", "unset"),
        *("wait", ".", ":", "kill", "echo", "printf", "test"),
    }
)
"""What bash does itself: there is no such program, or one that does something else."""


def read_command(line: str) -> Capability:
    """Return what running a bash line does: `exec` with its argv, or `shell` with the line.

    `exec` only where every character is a letter, digit or one of `_ . / : = + , @ % ^ -`, or stands
    in quotes; in ASCII, words parted by spaces alone. `~` only inside a word, as in `HEAD~1`.
    """
    words = words_of(line)
    if words is None or words[0] in _SHELLS_WORDS or "=" in words[0] or "^" in words[0]:
        return Capability(kind="shell", target=line)
    return Capability(kind="exec", target=quoted(words), argv=words)


def outside(command: Capability) -> Capability:
    """Return what a command needs beside itself to run with the person's rights.

    A line for a shell is there what it is: an argument of bash.
    """
    argv = command.argv if command.kind == "exec" else ("bash", "-c", command.target)
    return Capability(kind="outside", target=command.target, argv=argv)


def words_of(line: str) -> tuple[str, ...] | None:
    """Return a line's words, at least one; None where reading them takes a shell."""
    if not line.isascii():
        return None
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] == " ":
            at += 1
            continue
        pieces: list[str] = []
        while at < len(line) and line[at] != " ":
            match = _PIECE.match(line, at)
            if match is None:
                return None
            pieces.append(match.group(match.lastindex or 0))
            at = match.end()
        words.append("".join(pieces))
        if len(words) > MAX_WORDS:
            return None
    return tuple(words) if words and words[0] else None
