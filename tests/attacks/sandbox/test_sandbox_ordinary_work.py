"""What developers run all day works inside the sandbox, as root and as an ordinary user."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest
from boxes import Box
from tables import table

WORKS = [
    (
        "write, read and delete files",
        "echo a > a; mkdir -p b/c; mv a b/c/d; cat b/c/d; rm -r b",
        "a\n",
    ),
    (
        "pipes, sort and a here document",
        "printf 'b\\na\\n' | sort | tr a-z A-Z | tee out",
        "A\nB\n",
    ),
    ("a temporary file", 'f=$(mktemp); echo x > "$f"; cat "$f"; echo "${f%/*}"', "x\n/tmp\n"),
    (
        "redirections to devices",
        "echo lost > /dev/null; echo err >&2; head -c 4 /dev/zero | wc -c",
        "err\n4\n",
    ),
    ("random numbers", "head -c 8 /dev/urandom | wc -c", "8\n"),
    ("a named pipe", "mkfifo p; echo through > p & cat p; wait; rm p", "through\n"),
    (
        "background work and waiting for it",
        "(sleep 0.1; echo later) & echo now; wait",
        "now\nlater\n",
    ),
    ("exit codes", "false || echo failed; (exit 3); echo $?", "failed\n3\n"),
    (
        "programs that run programs",
        "find . -name notes.txt -exec cat {} +; xargs -a notes.txt echo",
        "notes\nnotes\n",
    ),
    (
        "making scripts executable",
        "printf '#!/bin/sh\\necho ran\\n' > s; chmod +x s; ./s; chmod 644 s",
        "ran\n",
    ),
    ("archives", "tar cf t.tar notes.txt; mkdir u; tar xf t.tar -C u; cat u/notes.txt", "notes\n"),
    (
        "copying with modes and times",
        "cp -a notes.txt n2; cmp notes.txt n2 && ln n2 n3 && ln -s n3 n4 && cat n4",
        "notes\n",
    ),
    ("writing to home", "echo x > ~/x; mkdir -p ~/.cache/tool; cat ~/x", "x\n"),
    ("finding out who one is", "whoami >/dev/null && id -u >/dev/null && hostname", "sandbox\n"),
    ("times and zones", "TZ=UTC date -d @0 +%H:%M", "00:00\n"),
    ("processes", "ps -e >/dev/null; kill -0 $$; sleep 999 & kill $!; wait $!; echo $?", "143\n"),
    ("an empty environment", "env -i /bin/echo clean", "clean\n"),
    ("a folder in shared memory", "echo x > /dev/shm/x && cat /dev/shm/x", "x\n"),
]
PYTHON = [
    ("arithmetic", "print(6 * 7)", "42\n"),
    (
        "processes of Python",
        "import multiprocessing as m\nprint(m.get_context('fork').Pool(2).map(abs, [-1, 2]))",
        "[1, 2]\n",
    ),
    (
        "threads",
        "import os, threading as t\nx = [t.Thread(target=os.write, args=(1, b't\\n')) for _ in range(3)]\n"
        "[y.start() for y in x]\n[y.join() for y in x]",
        "t\nt\nt\n",
    ),
    (
        "a server and its client on loopback",
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname())\na, _ = s.accept()\nc.send(b'hi')\n"
        "print(a.recv(9))",
        "b'hi'\n",
    ),
    (
        "a socket file",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('s')\ns.listen()\n"
        "c = socket.socket(socket.AF_UNIX)\nc.connect('s')\nprint('ok')",
        "ok\n",
    ),
    (
        "an event loop",
        "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_shell('echo sub')\n"
        "    return await p.wait()\nprint(asyncio.run(f()))",
        "sub\n0\n",
    ),
    (
        "a database",
        "import sqlite3\nd = sqlite3.connect('d.db')\nd.execute('create table t (a)')\n"
        "d.commit()\nprint('ok')",
        "ok\n",
    ),
    (
        "a terminal of its own",
        "import pty, os\na, b = pty.openpty()\nos.write(b, b'x')\nprint(os.read(a, 1))",
        "b'x'\n",
    ),
    (
        "a map of memory",
        "import mmap\nm = mmap.mmap(-1, 1 << 20)\nm[:2] = b'ok'\nprint(m[:2])",
        "b'ok'\n",
    ),
    (
        "encryption",
        "import ssl, hashlib\nssl.create_default_context()\nprint(hashlib.sha256(b'').hexdigest()[:4])",
        "e3b0\n",
    ),
]


@table(("what", "line", "text"), WORKS, ids=[what for what, *_ in WORKS])
def test_a_command_works(box: Box, what: str, line: str, text: str) -> None:
    ran = box.run("/bin/bash", "-c", line)

    assert (ran.text, ran.exit_code) == (text, 0), what


@table(("what", "code", "text"), PYTHON, ids=[what for what, *_ in PYTHON])
def test_python_works(box: Box, what: str, code: str, text: str) -> None:
    ran = box.run(box.first["python"], "-c", code)

    assert (ran.text, ran.exit_code) == (text, 0), what


def test_git_reads_a_repository_and_cannot_change_it(box: Box) -> None:
    workspace = box.folder / "workspace"
    shutil.rmtree(workspace / ".git")
    git(workspace, "init", "--quiet", "--initial-branch=main")
    git(workspace, "add", "notes.txt")
    git(workspace, "commit", "--quiet", "--message=first")
    (workspace / "notes.txt").write_text("changed\n")
    own(box, workspace)

    looked = box.run(
        "/bin/sh", "-c", "git log --format=%s; git status --short notes.txt; git diff --stat"
    )
    changed = box.run("/bin/sh", "-c", "git add notes.txt; git commit -m x; git config user.name x")

    assert looked.text.startswith("first\n M notes.txt\n notes.txt | 2 +-\n"), looked.text
    assert changed.exit_code != 0
    assert "Read-only file system" in changed.text


def test_git_works_in_a_worktree(box: Box) -> None:
    main, tree = box.folder / "outside/main", box.folder / "bare"
    main.mkdir()
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "--message=first")
    git(main, "worktree", "add", "--quiet", str(tree / "tree"))
    own(box, box.folder)

    ran = box.run("/bin/sh", "-c", "git log --format=%s", workspace="bare/tree")

    assert (ran.text, ran.exit_code) == ("first\n", 0)


def test_a_worktree_that_nobody_knows_of_shows_nothing(box: Box) -> None:
    ssh = box.folder / "home/.ssh"
    (box.folder / "bare/.git").write_text(f"gitdir: {ssh}\n")
    own(box, box.folder)

    ran = box.run("/bin/ls", str(ssh), workspace="bare")

    assert "No such file" in ran.text


def test_a_virtual_environment_is_made_and_then_used(box: Box) -> None:
    python = box.first["python"]
    made = box.run(python, "-m", "venv", "--without-pip", ".venv")
    test = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    (box.folder / "workspace/test_a.py").write_text(test)

    ran = box.run(
        "/bin/sh", "-c", ". .venv/bin/activate && python -m unittest -q test_a && which python"
    )
    written = box.run("/bin/sh", "-c", "echo evil >> .venv/bin/activate")
    installing = box.run("/bin/sh", "-c", "touch .venv/installed", changed=[".venv/."])

    assert made.exit_code == 0, made.text
    assert "OK" in ran.text
    assert ran.text.endswith("/.venv/bin/python\n")
    assert "Read-only file system" in written.text
    assert installing.exit_code == 0, installing.text


def test_pytest_runs_a_project(box: Box) -> None:
    (box.folder / "workspace/test_b.py").write_text(
        "def test_b(tmp_path):\n    assert tmp_path.exists()\n"
    )
    own(box, box.folder / "workspace")
    line = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q test_b.py"

    ran = box.run("/bin/sh", "-c", line)

    # Another user cannot read this one's Python where it lies in a home folder.
    is_shown = box.uid == os.getuid() and "PYTHONPATH" not in os.environ
    expected = "1 passed" if is_shown else ran.text
    assert expected in ran.text


BUILDS = [
    ("make", "printf 'all:\\n\\t@echo made\\n' > Makefile; make", "made\n"),
    ("gcc", "echo 'int main(){return 0;}' > a.c; gcc a.c -o a && ./a && echo built", "built\n"),
    ("node", "node -e 'console.log(1 + 1)'", "2\n"),
    ("perl", "perl -e 'print 1 + 1, qq(\\n)'", "2\n"),
]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param(*built, id=program, marks=pytest.mark.needs(program, among="/usr/bin"))
        for program, *built in BUILDS
    ],
)
def test_build_tools_work_where_there_are_some(box: Box, line: str, text: str) -> None:
    ran = box.run("/bin/sh", "-c", line)

    assert (ran.text, ran.exit_code) == (text, 0)


# --- with hosts that were named --------------------------------------------------------------


class Site:
    """What this machine's loopback serves: a file, a repository, an npm package, a wheel."""

    def __init__(self, folder: Path) -> None:
        work = folder / "work"
        work.mkdir(parents=True)
        (work / "hello.txt").write_text("hello\n")
        (folder / "hello.txt").write_text("hello\n")
        git(work, "init", "--quiet")
        git(work, "add", "hello.txt")
        git(work, "commit", "--quiet", "--message=first")
        git(folder, "clone", "--quiet", "--bare", "work", "made.git")
        git(folder / "made.git", "update-server-info")
        handler = partial(Quiet, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.here = f"127.0.0.1:{self.server.server_port}"
        self._pack(folder)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def _pack(self, folder: Path) -> None:
        about = {"name": "made", "version": "1.0.0"}
        files = {"package.json": json.dumps(about), "i.js": "hello\n"}
        with tarfile.open(folder / "made.tgz", "w:gz") as packed:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(text)
                packed.addfile(entry, BytesIO(text.encode()))
        offer = {**about, "dist": {"tarball": f"http://{self.here}/made.tgz"}}
        (folder / "made").write_text(
            json.dumps(
                {"name": "made", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": offer}}
            )
        )
        wheel = "made-1.0.0-py3-none-any.whl"
        simple = folder / "simple" / "made"
        simple.mkdir(parents=True)
        (simple / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
        with zipfile.ZipFile(simple / wheel, "w") as packed_wheel:
            packed_wheel.writestr("made.py", "hello\n")
            info = "made-1.0.0.dist-info"
            packed_wheel.writestr(
                f"{info}/METADATA", "Metadata-Version: 2.1\nName: made\nVersion: 1.0.0\n"
            )
            packed_wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            packed_wheel.writestr(f"{info}/RECORD", "")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.server.shutdown()
    site.server.server_close()


FETCHES = [
    ("curl", "curl -sS http://{here}/hello.txt", "hello\n"),
    ("curl", "curl -sSp http://{here}/hello.txt", "hello\n"),
    ("curl", "curl -sS http://elsewhere.example/", "elsewhere.example is refused: the command did"),
    ("git", "git clone -q http://{here}/made.git got && cat got/hello.txt", "hello\n"),
    (
        "npm",
        "npm install -s --registry http://{here}/ made && cat node_modules/made/i.js",
        "hello\n",
    ),
    ("wget", "wget -qO- http://{here}/hello.txt", "hello\n"),
    ("seq", "seq 100000 | head -1; seq 9 > /dev/full", "1\nseq: write error"),
]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param(*how, id=f"{program} {number}", marks=pytest.mark.needs(program))
        for number, (program, *how) in enumerate(FETCHES)
    ],
)
def test_programs_fetch_from_a_host_that_was_named(
    box: Box, site: Site, line: str, text: str
) -> None:
    ran = box.run("/bin/bash", "-c", line.format(here=site.here), hosts=[site.here])

    assert text in ran.text


@pytest.mark.skipif(find_spec("pip") is None, reason="there is no pip beside the tests")
def test_pip_installs_from_an_index_that_was_named(box: Box, site: Site) -> None:
    python = sys.executable
    if "ok" not in box.run("/bin/sh", "-c", f"{python} -m pip --version && echo ok").text:
        # Another user cannot read this one's Python where it lies in a home folder.
        return
    where = f"--index-url http://{site.here}/simple --trusted-host 127.0.0.1 --target got"
    line = f"{python} -m pip install -q --no-cache-dir {where} made && cat got/made.py"

    ran = box.run("/bin/sh", "-c", line, hosts=[site.here])

    assert ran.text.endswith("hello\n"), ran.text


def test_a_server_and_its_client_within_need_no_proxy(box: Box) -> None:
    code = (
        "import http.server as h, threading, urllib.request as u\n"
        "s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "print(u.urlopen(f'http://localhost:{s.server_port}/notes.txt').read())"
    )

    ran = box.run(box.first["python"], "-c", code, hosts=["pypi.org"])

    assert ran.text.endswith("b'notes\\n'\n"), ran.text
    assert ran.refused == {}


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def own(box: Box, folder: Path) -> None:
    if os.getuid() == 0:
        for each in (folder, *folder.rglob("*")):
            os.chown(each, box.uid, box.uid, follow_symlinks=False)
