"""What was typed behind a written command, put into a !`command` of its text: always one word, never code.

Every argument goes into every command; a real bash runs them and says which words it got.
"""

import subprocess
from pathlib import Path

import pytest
from tables import table

from midstream.language.command_text import commands_in, joined, may_run, parts
from midstream.language.errors import UserMistake

SHOW = "show() { printf '<%s>' \"$@\"; }; "

ARGUMENTS = {
    "a second command": "x; touch owned",
    "another line": "x\ntouch owned",
    "a command in dollars": "$(touch owned)",
    "a command in backticks": "`touch owned`",
    "out of single quotes": "'; touch owned; '",
    "out of single quotes, escaped": "\\'; touch owned; \\'",
    "out of double quotes": '"; touch owned; "',
    "out of both kinds of quotes": "'\"; touch owned; \"'",
    "a background job": "x & touch owned",
    "into a pipe": "| touch owned",
    "into a file": "> owned",
    "a variable of the shell": "$HOME ${HOME}",
    "names of files by pattern": "* ? [a-z]*",
    "a brace expansion": "{a,b}",
    "a home folder": "~root",
    "a backslash at its end": "x\\",
    "a comment": "# x",
    "history of a shell": "!!",
    "another embedded command": "!`touch owned`",
    "another place": "$1 $2 $ARGUMENTS",
    "an assignment": "PATH=/nowhere",
    "a descriptor for a redirection": "2",
}
COMMANDS = {
    "a word of its own": ("show $ARGUMENTS", "<{}>"),
    "in double quotes": ('show "$ARGUMENTS"', "<{}>"),
    "among others in double quotes": ('show "a $ARGUMENTS z"', "<a {} z>"),
    "within a path": ("show src/$ARGUMENTS.py", "<src/{}.py>"),
    "behind what was quoted": ("show 'it''s '$ARGUMENTS", "<its {}>"),
    "behind an escaped quote": ("show \\'$ARGUMENTS", "<'{}>"),
    "behind a quote in quotes": ('show "\\"$ARGUMENTS\\""', '<"{}">'),
    "in a command in dollars": (": $(show $ARGUMENTS); show ok", "<ok>"),
    "before a redirection": ("show $ARGUMENTS>&1", "<{}>"),
    "behind the shell's own number": (": $$; show $ARGUMENTS", "<{}>"),
    "the shell's own, in single quotes": ("show 'as $ARGUMENTS is'", "<as $ARGUMENTS is>"),
    "the shell's own, escaped": ('show "\\$ARGUMENTS"', "<$ARGUMENTS>"),
}


@table(("command", "shown"), COMMANDS.values(), ids=COMMANDS)
@table("typed", ARGUMENTS.values(), ids=ARGUMENTS)
def test_what_was_typed_is_one_word(tmp_path: Path, command: str, shown: str, typed: str) -> None:
    (line,) = commands_in(parts(f"See !`{command}` here", typed))
    ran = subprocess.run(
        ["bash", "-c", SHOW + line], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert not (tmp_path / "owned").exists()
    assert ran.stdout == shown.replace("{}", typed.strip())


UNHELD = {
    "in a string with escapes": "show $'a $1'",
    "behind a string with escapes": "show $'\\'' $1",
    "in arithmetic": "show $((1 + $1))",
    "in arithmetic of an older kind": "show $[1 + $1]",
    "in an arithmetic command": "(( x = $1 ))",
    "in a variable's default": "show ${x:-$1}",
    "in an index of a list": "show ${x[$1]}",
    "in a comment": "show a # $1",
    "in a comment behind a semicolon": "show a;# $1",
    "in a command in double quotes": 'show "$(show $1)"',
    "in a translated string": 'show $"$1"',
}


@table("command", UNHELD.values(), ids=UNHELD)
def test_where_quotes_do_not_hold_it_nothing_is_run(command: str) -> None:
    with pytest.raises(UserMistake, match="cannot be held by quotes"):
        parts(f"!`{command}`", "x; touch owned")


def test_what_was_typed_and_what_a_command_said_is_never_run() -> None:
    found = parts("$ARGUMENTS !`echo`", "!`touch owned` $1")

    assert commands_in(found) == ("echo",)
    assert joined(found, ("!`touch owned` $1 @/etc/passwd",)) == (
        "!`touch owned` $1 !`touch owned` $1 @/etc/passwd"
    )


NARROWED = {
    "no shell at all": ("Read, Grep", "git log", False),
    "nothing": ("", "git log", False),
    "the shell": ("Read, Bash", "git log", True),
    "by its beginning": ("Bash(git log:*)", "git log -3", True),
    "another beginning": ("Bash(git log:*)", "git push", False),
    "a beginning that is half a word": ("Bash(git lo:*)", "git log", False),
    "to the letter": ("[Bash(make test)]", "make test", True),
    "to the letter and more": ("Bash(make test)", "make test evil", False),
    "a star alone": ("Bash(*)", "make", True),
    "our own name for it": ("execute_terminal", "make", True),
    "one that only sounds so": ("NoBash, Bashful", "make", False),
}


@table(("tools", "command", "is_left"), NARROWED.values(), ids=NARROWED)
def test_a_head_only_narrows(tools: str, command: str, is_left: bool) -> None:
    assert may_run(command, tools) is is_left
