"""A rule that keeps files from being read, and all that could read them: none does so unasked."""

import subprocess
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tables import table
from toolbench import Bench, Said

from midstream.language.errors import MidstreamError
from midstream.language.names import Json
from midstream.safety.capability import PermissionMode
from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy, judged
from midstream.safety.rules import read_rule
from midstream.tools import read_only_launch
from midstream.tools.manager import ToolManager, built_in_tools

KEPT = "Margaret owes 4711"
RULE = "read: customers/**"

COMMANDS = (
    *(
        "git show",
        "git show HEAD",
        "git show HEAD~1 -- customers/a.txt",
        "git log -p",
        "git log -p -- .",
    ),
    *(
        "git diff HEAD~1",
        "git diff HEAD~1 HEAD -- .",
        "git log -U3",
        "git log --patch-with-stat",
        "git diff",
    ),
    *(
        "git log -S owes -p",
        "git grep owes",
        "git cat-file -p HEAD:customers/a.txt",
        "git blame customers/a.txt",
    ),
    *(
        "git stash show -p",
        "git archive HEAD",
        "git show HEAD:customers/a.txt",
        "git diff --word-diff HEAD~1",
    ),
    *(
        "cat customers/a.txt",
        "head customers/a.txt",
        "tail -n 1 customers/a.txt",
        "grep owes customers/a.txt",
    ),
    *(
        "grep -r owes .",
        "grep -rh owes customers",
        "rg owes",
        "rg owes .",
        "rg owes customers",
        "rg --files customers",
    ),
    *(
        "rg -e owes customers/a.txt",
        "cat way/a.txt",
        "cat way2",
        "cat Customers/a.txt",
        "cat ./customers/./a.txt",
    ),
    *(
        "cat customers/*",
        "cat src/../customers/a.txt",
        "find customers -type f",
        "ls customers",
        "wc customers/a.txt",
    ),
    *(
        "cp -r customers src",
        "tar c customers",
        "python3 -c 'print(open(\"customers/a.txt\").read())'",
        "make show",
    ),
    *(
        "sh -c 'cat cust*/a*'",
        "cat $(ls -d c*)/a.txt",
        "base64 customers/a.txt",
        "diff customers/a.txt src/a.py",
    ),
    *(
        "cat < customers/a.txt",
        "sed -n p customers/a.txt",
        "awk 1 customers/a.txt",
        "xxd customers/a.txt",
        "strings x",
    ),
)
CALLS: dict[str, tuple[str, dict[str, Json]]] = {
    "read_files": ("read_files", {"paths": ["customers/a.txt"]}),
    "read_files, by lines": ("read_files", {"paths": ["src/a.py", "customers/a.txt:1-2"]}),
    "read_files, by a link": ("read_files", {"paths": ["way/a.txt", "way2"]}),
    "read_files, in capitals": ("read_files", {"paths": ["CUSTOMERS/A.TXT"]}),
    "exact_search": ("exact_search", {"text": "owes"}),
    "exact_search there": ("exact_search", {"text": "owes", "path": "customers"}),
    "exact_search of all": ("exact_search", {"text": "owes", "include_ignored": True}),
    "exact_search of an expression": ("exact_search", {"text": "o.es", "regex": True}),
    "find_files": ("find_files", {"glob": "customers/a.*", "path": "."}),
    "find_files there": ("find_files", {"glob": "*", "path": "customers"}),
    "list_directory": ("list_directory", {"path": "customers"}),
    "explain_codebase": ("explain_codebase", {"path": "customers"}),
    "edit_file": (
        "edit_file",
        {"path": "customers/a.txt", "edits": [{"old_text": "x", "new_text": "y"}]},
    ),
    **{line: ("execute_terminal", {"command": line}) for line in COMMANDS},
}
MODES: tuple[PermissionMode, ...] = ("plan", "ask", "auto", "full")


def workspace_of(folder: Path) -> Path:
    work = folder / "work"
    for name, text in {
        "customers/a.txt": f"{KEPT}\n",
        "src/a.py": "x = 1\n",
        "Makefile": "show:\n\t@cat customers/a.txt\n",
    }.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (work / "way").symlink_to("customers")
    (work / "way2").symlink_to("customers/a.txt")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (
        ("init", "-q"),
        ("add", "src"),
        ("commit", "-qm", "1"),
        ("add", "-A"),
        ("commit", "-qm", "2"),
    ):
        subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)
    (work / "customers/a.txt").write_text(f"{KEPT}, no 4712\n")
    return work


@table("mode", MODES)
async def test_nothing_shows_what_is_kept_unasked(tmp_path: Path, mode: PermissionMode) -> None:
    work = workspace_of(tmp_path)
    allow = ("exec: git *", "exec: cat *", "exec: rg *", "shell: *") if mode == "ask" else ()
    shown = []
    for how in ("deny", "ask", "narrowing_deny", "narrowing_ask"):
        rules = {"allow": allow, how: (RULE,)}
        policy = replace(Policy(mode=mode, sandbox="full"), **rules)
        manager = ToolManager(
            built_in=built_in_tools(Said("full")), policy=partial(replace, policy)
        )
        bench = Bench(work, manager)
        for name, (tool, given) in CALLS.items():
            if KEPT in (await bench.call(tool, **given)).text:
                shown.append(f"{how}: {name}")

    assert shown == []


async def test_what_takes_a_sandbox_to_be_kept_from_it_is_asked_about(tmp_path: Path) -> None:
    policy = Policy(mode="full", sandbox="full", deny=(RULE,))
    manager = ToolManager(built_in=built_in_tools(Said("full")), policy=lambda: policy)
    context = Bench(workspace_of(tmp_path), manager).context
    unasked = {
        line
        for line in COMMANDS
        if (await manager.review("execute_terminal", {"command": line}, context)).kind == "allow"
    }

    # These show what was committed, with what the rule is about left out; else they would ask.
    assert unasked == {
        *("git show", "git show HEAD", "git log -p", "git log -p -- .", "git log -U3"),
        *("git diff HEAD~1 HEAD -- .", "git log --patch-with-stat"),
    }


STILL = (
    "git status",
    "git log --oneline",
    "cat src/a.py",
    "grep -n x src/a.py",
    "ls",
    "wc -l Makefile",
)


async def test_what_names_what_it_reads_still_runs_unasked(tmp_path: Path) -> None:
    policy = Policy(mode="auto", sandbox="full", deny=(RULE,), allow=("exec: make show",))
    manager = ToolManager(built_in=built_in_tools(Said("full")), policy=lambda: policy)
    context = Bench(workspace_of(tmp_path), manager).context
    asked = [
        (line, review.reason)
        for line in STILL
        if (review := await manager.review("execute_terminal", {"command": line}, context)).kind
        != "allow"
    ]

    assert asked == []


# --- what looks with it left out ------------------------------------------------------------------


HISTORY = {
    "customers/a.txt": f"{KEPT}\n",
    "Customers/b.txt": f"{KEPT}, in capitals\n",
    "customers/deep/er/c.bin": f"\0{KEPT}\0",
    "src/a.key": f"{KEPT}, a key\n",
    "src/deep/B.KEY": f"{KEPT}, a key\n",
    "src/[x]{y}/z.txt": f"{KEPT}, in brackets\n",
    "src/a.py": "plain = 1\n",
    "src/x/z.txt": "plain = 2\n",
}
RULES = (RULE, "read: **/*.key", "read: src/[x]{y}/*")
LOOKS = (
    *("git log -p", "git log -p --all", "git log -p --all -- .", "git log -p --first-parent"),
    *(
        "git log -p -- src",
        "git log -p --find-renames",
        "git log -p --no-renames --reverse",
        "git log -U0",
    ),
    *("git log --patch-with-stat -n 5", "git log --word-diff", "git log -p --stat --raw"),
    *("git show", "git show HEAD", "git show HEAD~1", "git show side", "git show HEAD -- src"),
    *("git show merged", "git log -p merged", "git show --format=%B HEAD", "git show HEAD~2"),
    *(
        "git diff HEAD~1 HEAD",
        "git diff HEAD~2..HEAD",
        "git diff HEAD~1...side",
        "git diff --cached",
    ),
    *("git diff HEAD~1 HEAD -- src", "git diff -M HEAD~2 HEAD", "git diff --check HEAD~2 HEAD"),
)
IN_THE_SANDBOX = ("git diff", "git diff HEAD", "git diff HEAD~1 -- src", "rg plain", "rg -e a -e z")
REFUSED = (
    *("git show HEAD:customers/a.txt", "git show :customers/a.txt", "git show :/kept"),
    *("git diff --no-index customers/a.txt src/a.py", "git diff -- :/customers", "git log -p -C"),
    *(
        "git log -p -- ':(top)customers'",
        "git log -p -- 'cust*'",
        "git log -p --follow -- src/a.py",
    ),
    *("git log -p -- customers", "git log -p -- Customers/b.txt"),
    *("git log -p -- -- customers", "git -C customers log -p", "git log --full-diff -p -- src"),
    *("git diff HEAD -- customers/deep", "git show HEAD^{tree}", "git log -p -m", "git show -c"),
    *(
        "rg owes customers",
        "rg owes src/a.key",
        "rg -uu owes",
        "rg -g 'c*/**' owes",
        "rg -L owes way",
    ),
    *(
        "git show HEAD -- src/a.key",
        "rg --no-ignore owes",
        "rg --pre cat owes",
        "rg -f customers/a.txt",
    ),
    *(
        "git grep owes",
        "git blame customers/a.txt",
        "git log -S owes -p",
        "git log -L1,1:customers/a.txt",
    ),
)


def history_of(folder: Path) -> Path:
    """Return a repository in which what is kept is added, changed, renamed, copied and merged."""
    work = folder / "work"
    work.mkdir()

    def git(*words: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")
        subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text)
        git("add", "-A")

    git("init", "-q", "-b", "main")
    write(HISTORY)
    git("commit", "-qm", "one")
    write({name: f"{text}more\n" for name, text in HISTORY.items()})
    git("commit", "-qm", "two")
    git("checkout", "-qb", "side")
    git("mv", "customers/deep", "customers/moved")
    write({"customers/a.txt": f"{KEPT} on the side\n", "src/a.py": "side = 1\n"})
    git("commit", "-qm", "three")
    git("checkout", "-q", "main")
    write({"customers/a.txt": f"{KEPT} on main\n", "src/x/z.txt": "plain = 3\n"})
    git("commit", "-qm", "four")
    git("merge", "-q", "-s", "ours", "-m", "merged", "side")
    git("branch", "merged")
    (work / "customers/a.txt").write_text(f"{KEPT}, now\n")
    (work / "src/a.py").write_text("plain = 4\n")
    (work / "src/a.key").write_text(f"{KEPT}, now\n")
    git("add", "src/a.key")
    return work


def lines_of(work: Path, line: str, *, is_boxed: bool) -> "read_only_launch.Start | None":
    kept = tuple(map(read_rule, RULES))
    try:
        return read_only_launch.looking(read_command(line).argv, work, is_boxed=is_boxed, kept=kept)
    except MidstreamError:
        return None


@pytest.mark.parametrize("program", ["git", pytest.param("rg", marks=pytest.mark.needs("rg"))])
def test_what_looks_shows_nothing_of_what_is_left_out(tmp_path: Path, program: str) -> None:
    work = history_of(tmp_path)
    wrong = []
    for is_boxed, lines in ((False, LOOKS), (True, (*LOOKS, *IN_THE_SANDBOX))):
        for line in (line for line in lines if line.split()[0] == program):
            start = lines_of(work, line, is_boxed=is_boxed)
            if start is None or start.left_out != RULES:
                wrong.append(f"{line}: not left out")
                continue
            ended = subprocess.run(
                start.argv, cwd=work, env=start.environment, capture_output=True, check=False
            )
            if KEPT.encode() in ended.stdout or ended.returncode > 1 or ended.stderr:
                wrong.append(f"{line}: {ended.stderr.decode()}{ended.stdout.decode()}")
    assert wrong == []
    # And it is no look at nothing: what is not kept is there.
    start = lines_of(work, "git log -p --all", is_boxed=False)
    assert start is not None
    ended = subprocess.run(start.argv, cwd=work, env=start.environment, capture_output=True)
    assert b"+plain = 3" in ended.stdout


def test_what_names_or_finds_it_in_another_way_is_not_run_so(tmp_path: Path) -> None:
    work = history_of(tmp_path)
    policy = Policy(mode="auto", sandbox="full", deny=RULES)
    run = []
    for line in REFUSED:
        start = lines_of(work, line, is_boxed=True)
        if start is None:
            continue
        command = replace(read_command(line), left_out=start.left_out)
        if judged((command, *start.reads), policy).kind == "allow":
            run.append(line)

    assert run == []


def test_a_rule_that_no_glob_says_exactly_is_asked_about(tmp_path: Path) -> None:
    work = history_of(tmp_path)
    for rule in ("read: custom?rs/**", "read: Kunden-Müller/**", "read: **", "read: ."):
        start = read_only_launch.looking(
            ("git", "log", "-p"), work, is_boxed=True, kept=(read_rule(rule), read_rule(RULE))
        )
        assert start is not None
        command = replace(read_command("git log -p"), left_out=start.left_out)
        verdict = judged((command,), Policy(mode="full", sandbox="full", deny=(rule, RULE)))

        assert start.left_out == (RULE,)
        assert verdict.kind == "ask"
        assert rule in verdict.reason
