"""Reading a command line: an argv only where bash would have started exactly that."""

import shutil
import subprocess

import pytest
from deadline import DEADLINE_S
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.safety.capability import quoted
from midstream.safety.command_line import outside, read_command, words_of
from midstream.safety.rules import read_rule

BASH = shutil.which("bash") or "/bin/bash"


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("git status", ("git", "status")),
        ("  git   status  ", ("git", "status")),
        ("grep -n 'a  b' src/a.py", ("grep", "-n", "a  b", "src/a.py")),
        ('git commit -m "two words"', ("git", "commit", "-m", "two words")),
        ("git log HEAD~1..HEAD^", ("git", "log", "HEAD~1..HEAD^")),
        ("rg 'x|y$' .", ("rg", "x|y$", ".")),
        ("make CC=gcc -j4", ("make", "CC=gcc", "-j4")),
        ("npm install @types/node@20", ("npm", "install", "@types/node@20")),
        ("pytest tests/test_a.py::test_b", ("pytest", "tests/test_a.py::test_b")),
        ("x '' \"\"", ("x", "", "")),
        ("x a'b'\"c\"d", ("x", "abcd")),
        ("x '$(id)' '`id`' '!' '\\n'", ("x", "$(id)", "`id`", "!", "\\n")),
    ],
)
def test_words_and_quotes_are_an_argv(line: str, argv: tuple[str, ...]) -> None:
    command = read_command(line)

    assert (command.kind, command.argv, command.target) == ("exec", argv, quoted(argv))


@pytest.mark.parametrize(
    "line",
    [
        *("a; b", "a && b", "a || b", "a | b", "a & b", "a &", "a\nb", "a\rb", "a\tb", "a\0b"),
        *("a > x", "a < x", "a >> x", "a 2>&1", "a <<EOF", "a <(b)", "(a)", "{ a; }", "a {b,c}"),
        *("echo $HOME", 'x "$HOME"', "x $(id)", "x `id`", 'x "`id`"', "x $'a'", 'x $"a"', "x ${a}"),
        *("X=1 a", "X+=1 a", "a[0]=1 b", "X=1", "x *", "x a?", "x [ab]", "x ~", "x ~/a", "x ~root"),
        *("x !!", "x !1", 'x "a!b"', "x \\a", 'x "a\\b"', "x a\\", "x #c", "x a=~/b", "x a:~/b"),
        *("x 'a", 'x "a', "x 'a\nb'", "x 'a\x1b'", "gi\u0442 status", "x '\u00e9'", "x\u00a0a", ""),
        *(
            "   ",
            "''",
            "if x",
            "cd /",
            ". ./x",
            "eval x",
            "exec x",
            "echo a",
            "time x",
            "export A=b",
        ),
        *("source x", "command x", "builtin x", "alias a=b", "[ a ]", "[[ a ]]", "x\u2028y", "=x"),
        *("^a^b", "x %1\n", "x\x7f", "coproc x", "function x", "trap x EXIT", "x " * 201),
    ],
)
def test_all_else_is_a_line_for_a_shell_as_it_stands(line: str) -> None:
    command = read_command(line)

    assert (command.kind, command.argv, command.target) == ("shell", (), line)


def test_outside_a_line_for_a_shell_is_what_bash_is_given() -> None:
    assert outside(read_command("a b")).argv == ("a", "b")
    assert outside(read_command("a | b")).argv == ("bash", "-c", "a | b")


HOSTILE = st.text(
    st.sampled_from("ab1 '\"\\$`!*?[]{}()<>|&;#~=:/.,%@^+-_\n\t") | st.characters(codec="utf-8"),
    max_size=14,
).filter(lambda text: "\0" not in text)


@settings(max_examples=30, deadline=None)
@given(st.lists(HOSTILE, min_size=20, max_size=60))
def test_bash_reads_the_same_words(texts: list[str]) -> None:
    read = [words for text in texts if (words := words_of(f"x {text}")) is not None]
    lines = [f"x {text}" for text in texts if words_of(f"x {text}") is not None]
    program = "x() { printf '%s\\0' x \"$@\" $'\\n'; }\n" + "\n".join(lines)

    said = subprocess.run(
        [BASH, "--norc", "-c", program], capture_output=True, check=True, timeout=DEADLINE_S
    ).stdout.decode()

    assert said == "".join("".join(f"{word}\0" for word in words) + "\n\0" for words in read)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=1))
def test_what_is_quoted_is_read_back(argv: list[str]) -> None:
    line = quoted(argv)

    if argv[0] and len(argv) <= 200:
        assert words_of(line) == tuple(argv)


@given(
    st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1), min_size=1)
)
def test_an_argv_as_a_rule_covers_it(argv: list[str]) -> None:
    command = read_command(quoted(argv))

    if command.kind == "exec" and len(str(command)) < 2_000:
        assert read_rule(str(command)).covers(command)
