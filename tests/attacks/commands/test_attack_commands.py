"""Command lines a hostile model or repository would like to see run unasked. None of them may be.

Each is judged as `execute_terminal` asks for it where there is no sandbox: in `ask` and `auto` it asks
or is denied, and in `plan` it is denied. The second column says what the line is after.
"""

from tables import table

from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy, judged
from midstream.testing.attacks import COMMAND_LINES, unasked


@table("line", COMMAND_LINES, ids=lambda line: COMMAND_LINES[line])
def test_it_is_not_run_unasked_where_there_is_no_sandbox(line: str) -> None:
    assert unasked(line) == ()


def test_each_case_is_one_of_its_own() -> None:
    assert len(COMMAND_LINES) >= 150


EVERYDAY = [
    *("git status", "git status -s", "git status --short --branch", "git diff", "git diff --stat"),
    *("git diff --cached", "git diff HEAD~1", "git diff main..feature", "git diff -- src/a.py"),
    *("git log --oneline -10", "git log -n 5 --stat", "git log -p -2", "git log --graph --all"),
    *("git log --format='%h %an %s' -5", "git log --since='2 weeks ago' --author=ann"),
    *("git show", "git show HEAD~2 --stat", "git branch -a", "git branch --show-current"),
    *("git ls-files", "git ls-files src", "ls", "ls -la", "ls -lh src tests", "pwd"),
    *("cat README.md", "cat -n src/a.py", "head -50 src/a.py", "head -n 20 a b", "tail -5 log.txt"),
    *("tail -n +10 src/a.py", "wc -l src/a.py", "grep -n 'def main' src/a.py", "grep -in x a b"),
    *("rg 'def \\w+' src", "rg -n -tpy import", "rg --files", "rg -l needle", "rg -C 3 -i x src"),
    *("cat .env.example", "cat '[id].tsx'", "stat README.md", "cat .gitignore", "ls .github"),
]


@table("line", EVERYDAY)
@table("mode", ["plan", "ask", "auto", "full"])
def test_everyday_looking_needs_no_question_in_any_mode(line: str, mode: str) -> None:
    policy = Policy(mode=mode)  # type: ignore[arg-type]

    assert judged([read_command(line)], policy).kind == "allow"
