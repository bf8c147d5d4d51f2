"""A rule on reading, and commands in the sandbox that do more than look: they run unasked, and cannot.

Each row is what a fooled agent runs one after the other, unasked. Nothing of what is kept comes out, and
nothing of it lies under another name afterwards.
"""

import subprocess
from pathlib import Path

import pytest
from tables import table
from toolbench import Bench

from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager, built_in_tools
from midstream.tools.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.needs("sandbox")

KEPT = "Margaret owes 4711"
RULES = ("read: customers/**", "read: data/private/**", "read: **/*.key")
FILES = {
    "customers/a.txt": KEPT,
    "customers/deep/b.txt": KEPT,
    "data/private/c.txt": KEPT,
    "data/plain.txt": "plain",
    "src/x/d.KEY": KEPT,
    "src/a.py": "x = 1\n",
    ".github/e.key": KEPT,
    "node_modules/x/f.key": KEPT,
    "Makefile": "show:\n\t@cat customers/a.txt data/private/c.txt src/x/*.KEY\n",
}
READ_ALL = """
import os, zlib
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        try:
            data = open(path, "rb").read()
        except OSError:
            continue
        for each in (data, data[::-1]):
            try:
                each = zlib.decompress(each)
            except zlib.error:
                pass
            if b"owes 4711" in each:
                print(path, each)
"""
TRIES = {
    "by name": ("cat customers/a.txt data/private/c.txt src/x/d.KEY .github/e.key",),
    "by wildcards": ("cat c*/a.* ./*/*/*",),
    "by a program": ("make show",),
    "by walking": ("python3 read_all.py",),
    "in small steps": ("find . -type f -exec cat {} +", "grep -rh owes.4711 .", "tar c . | cat"),
    "by copies": (
        "cp -r customers src/y; cp src/x/d.KEY z.txt; cp -a . /tmp/all",
        "cat src/y/* z.txt",
    ),
    "by moving it": ("mv customers plain; mv src/x/d.KEY z.txt", "cat plain/a.txt z.txt"),
    "by moving what holds it": (
        "mv data other; mv src other2",
        "cat other/private/c.txt other2/x/*",
    ),
    "by links": (
        "ln customers/a.txt z1; ln src/x/d.KEY z2; ln -s customers w; ln -s src/x w2",
        "cat z1 z2 w/a.txt w2/d.KEY",
    ),
    "by taking it away": ("rm -rf customers data/private src/x/d.KEY", "make show"),
    "by the mount": (
        "umount customers; mount --bind . /mnt; mount -o remount,rw customers; chmod 777 customers",
        "ls -la customers; cat customers/a.txt",
    ),
    "by other roots": ("cat /proc/1/root$PWD/customers/a.txt /proc/self/cwd/customers/a.txt",),
    "by open descriptors": ("for f in /proc/*/fd/*; do cat $f/a.txt $f/customers/a.txt; done",),
    "by the history's files": ("ls .git; cat .git/objects/*/*; python3 read_all.py",),
    "by a repository made of it": (
        "cp -r .git store; mv .git store2",
        "cat store/HEAD store2/HEAD",
    ),
}
ASKED = (
    *(
        "git log -p -S Margaret",
        "git cat-file -p HEAD:customers/a.txt",
        "cd . && git show HEAD:customers/a.txt",
    ),
    *(
        "/usr/bin/git archive HEAD",
        "sh -c 'git stash show -p'",
        "env git grep Margaret",
        "hg cat -r 0 x",
    ),
)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    box = Sandbox(tmp_path_factory.mktemp("state"))
    box.measure()
    return box


def bench_in(work: Path, sandbox: Sandbox, allow: tuple[str, ...] = ()) -> Bench:
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "1")):
        subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)
    (work / "read_all.py").write_text(READ_ALL)
    policy = Policy(mode="auto", sandbox="full", deny=RULES, allow=allow)
    return Bench(work, ToolManager(built_in=built_in_tools(sandbox), policy=lambda: policy))


def elsewhere(work: Path) -> list[str]:
    """Return the files with what is kept under names that no rule is about, and those it is gone from."""
    return sorted(
        str(path.relative_to(work))
        for path in work.rglob("*")
        if path.is_file()
        and ".git" not in path.parts
        and KEPT in path.read_text("utf-8", "replace")
    )


BEFORE = sorted(name for name, text in FILES.items() if KEPT in text)


@table("story", TRIES)
async def test_it_runs_unasked_and_reads_nothing_that_is_kept(
    tmp_path: Path, sandbox: Sandbox, story: str
) -> None:
    bench = bench_in(tmp_path, sandbox)
    for line in TRIES[story]:
        review = await bench.manager.review("execute_terminal", {"command": line}, bench.context)
        assert review.kind == "allow", (line, review.reason)
        text = (await bench.call("execute_terminal", command=line)).text

        assert KEPT not in text
    assert elsewhere(tmp_path) == BEFORE


async def test_what_asks_the_repository_is_asked_about(tmp_path: Path, sandbox: Sandbox) -> None:
    bench = bench_in(tmp_path, sandbox)
    for line in ASKED:
        review = await bench.manager.review("execute_terminal", {"command": line}, bench.context)

        assert review.kind == "ask", line
        assert "it asks the repository" in review.shows


async def test_a_command_works_on_what_is_left(tmp_path: Path, sandbox: Sandbox) -> None:
    bench = bench_in(tmp_path, sandbox)
    line = "echo made > src/new.key && cat src/new.key data/plain.txt && ls customers data/private"

    text = (await bench.call("execute_terminal", command=line)).text

    assert text.endswith("\n\nmade\nplaincustomers:\n\ndata/private:\n")
    assert (
        "[it could not read .git, customers, .github/e.key, data/private, node_modules/x/f.key, "
        in text
    )
    assert (tmp_path / "src/new.key").read_text() == "made\n"
    assert "made" not in (await bench.call("execute_terminal", command="cat src/new.key; :")).text


async def test_what_is_written_where_it_cannot_read_is_refused_not_lost(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    bench = bench_in(tmp_path, sandbox)

    said = await bench.failure("execute_terminal", command="echo x > customers/new.txt")

    assert "Read-only file system" in said


async def test_a_command_that_the_person_named_reads_it(tmp_path: Path, sandbox: Sandbox) -> None:
    bench = bench_in(tmp_path, sandbox, allow=("exec: make show",))

    assert KEPT in (await bench.call("execute_terminal", command="make show")).text


@table("how", ["more names than are looked through", "a repository in another folder", "too many"])
async def test_what_cannot_be_kept_whole_is_asked_about(
    tmp_path: Path, sandbox: Sandbox, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_in(tmp_path, sandbox)
    match how:
        case "too many":
            for number in range(201):
                (tmp_path / f"{number}.key").touch()
        case "a repository in another folder":
            (tmp_path / ".git").rename(tmp_path / "store")
            (tmp_path / ".git").write_text("gitdir: store\n")
        case _:
            monkeypatch.setattr("midstream.tools.sandbox.masks.MAX_NAMES", 10)

    review = await bench.manager.review("execute_terminal", {"command": "make show"}, bench.context)

    assert review.kind == "ask"
    assert "it can read what a rule of yours is about" in review.shows
