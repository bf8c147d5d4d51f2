"""Escapes tried from inside the sandbox, as root and as an ordinary user. None may work."""

import json
import os
from typing import Any

from boxes import DEEP, OBEYED, SECRET, Box, Ran
from deadline import DEADLINE_S, wait_until
from escapes import PRELUDE, attacks
from tables import table

from midstream.system.programs import PASSED_ON, SET

OURS = {"PATH", "HOME", "TMPDIR", "GIT_OPTIONAL_LOCKS", "PWD", "LC_ALL", "LC_CTYPE"}
ALL = [*attacks("FILES"), *attacks("KERNEL"), *attacks("PROCESSES"), *attacks("NETWORK")]
DEEP_LOCKED = [name for name in DEEP if not name.startswith(("plain/objects", "plain/refs"))]
WITH_NETWORK = attacks("WITH_NETWORK")
WITH_HOSTS = [*attacks("NETWORK"), *attacks("WITH_HOSTS")]


def tried(box: Box, code: str, **how: Any) -> Ran:
    """Run Python inside, and see that it came to its end."""
    null = os.stat("/dev/null")
    given = {
        "folder": str(box.folder),
        "secret": SECRET,
        "port": box.tcp.getsockname()[1],
        "abstract": box.abstract,
        "null": [null.st_dev, null.st_ino],
        "pids": [os.getpid(), box.worker.pid],
        "deep": DEEP_LOCKED,
        "names": sorted(
            {*PASSED_ON, *SET, *OURS} - {"SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR"}
        ),
    }
    python = box.first["python"]
    program = f"{PRELUDE}\n{code}\nprint('tried')\n"
    ran = box.run(python, "-I", "-S", "-c", program, json.dumps(given), **how)
    assert ran.text.endswith("tried\n"), ran.text
    return ran


def test_there_are_many() -> None:
    assert len(ALL) + len(WITH_NETWORK) >= 80


@table(("what", "code"), ALL, ids=[what for what, _ in ALL])
def test_an_escape_is_refused(box: Box, what: str, code: str) -> None:
    ran = tried(box, code)

    assert "BREACH" not in ran.text, f"{what}: {ran.text}"
    assert_unharmed(box)


@table(("what", "code"), WITH_NETWORK, ids=[what for what, _ in WITH_NETWORK])
def test_an_escape_is_refused_with_the_network(box: Box, what: str, code: str) -> None:
    ran = tried(box, code, network=True)

    assert "BREACH" not in ran.text, f"{what}: {ran.text}"
    assert_unharmed(box)


@table(("what", "code"), WITH_HOSTS, ids=[what for what, _ in WITH_HOSTS])
def test_an_escape_is_refused_with_a_host_that_was_named(box: Box, what: str, code: str) -> None:
    ran = tried(box, code, hosts=[f"127.0.0.1:{box.tcp.getsockname()[1]}"])

    assert "BREACH" not in ran.text, f"{what}: {ran.text}"
    assert_unharmed(box)


def assert_unharmed(box: Box) -> None:
    workspace = box.folder / "workspace"
    assert (box.folder / "outside/canary").read_text() == SECRET
    assert (workspace / ".git/config").read_text() == "[core]\n"
    assert (workspace / ".env").read_text() == SECRET
    for repository in (workspace, workspace / "vendor/lib"):
        assert sorted(os.listdir(repository / ".git")) == ["HEAD", "config", "hooks"]
        assert os.listdir(repository / ".git/hooks") == []
    assert os.listdir(workspace / ".midstream/workflows") == []
    assert [name for name in DEEP_LOCKED if (workspace / name).read_text() != OBEYED] == []
    assert box.reached() == []


def test_dot_git_and_dot_midstream_cannot_be_made_where_there_are_none(box: Box) -> None:
    ran = box.run(
        "/bin/sh",
        "-c",
        "touch .git/config; mkdir .git/hooks; rmdir .git; mv .git x; rm -rf .git .midstream;"
        "ln -sfn /tmp .midstream; touch .midstream/x; ls -A . .git .midstream",
        workspace="bare",
    )

    assert ran.text.endswith(".:\n.git\n.midstream\n\n.git:\n\n.midstream:\n"), ran.text
    assert os.listdir(box.folder / "bare") == []


def test_what_a_crash_left_of_a_stand_in_goes_with_the_next_command(box: Box) -> None:
    left = box.folder / "bare/.git"
    left.mkdir(mode=0o555)
    left.chmod(0o555)

    box.run("/bin/true", workspace="bare")

    assert os.listdir(box.folder / "bare") == []


def test_a_bomb_of_processes_ends_at_the_limit(box: Box) -> None:
    limited = not box.first["why"].startswith("processes are limited")
    code = """
count = 0
try:
    while count < 1200:
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)
        count += 1
except OSError:
    pass
print("made", count)
"""
    ran = tried(box, code)

    made = int(ran.text.split("made ")[1].split()[0])
    assert made < 1024 or not limited
    assert ran.survivors == 0


def test_nothing_outlives_a_command_that_leaves_its_session_and_clears_its_environment(
    box: Box,
) -> None:
    seconds = sleeping_s()
    tried(box, _runaway(seconds))

    assert running(f"sleep\0{seconds}") == []


@table("stubborn", [False, True], ids=["willing", "deaf to signals"])
def test_out_of_time_everything_inside_ends(box: Box, stubborn: bool) -> None:
    seconds = sleeping_s()
    deaf = "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 15)]\n" if stubborn else ""
    program = f"{PRELUDE.replace('G = json.loads(sys.argv[1])', 'G = {}')}".partition("OUT,")[0]
    again = "while True:\n    print('away', flush=True)\n    time.sleep(0.05)"
    code = f"{program}\n{deaf}{_runaway(seconds)}\n{again}"

    python, grace_s = box.first["python"], 0.1 if stubborn else DEADLINE_S
    ran = box.run(python, "-I", "-S", "-c", code, late_at="away", grace_s=grace_s)

    assert "away" in ran.text
    assert ran.cause == "timed_out"
    assert (ran.exit_code, ran.survivors) == (-9 if stubborn else -2, 0)
    assert running(f"sleep\0{seconds}") == []


def test_killed_itself_midstream_leaves_nothing_running(box: Box) -> None:
    other = Box(box.uid)
    seconds = sleeping_s()
    line = f"setsid sleep {seconds} & trap '' INT TERM HUP; echo started > up; sleep {seconds}"
    other.ask("/bin/sh", "-c", line)
    wait_until(lambda: (other.folder / "workspace/up").exists())
    wait_until(lambda: len(running(f"sleep\0{seconds}")) >= 2)

    other.worker.kill()

    wait_until(lambda: running(f"sleep\0{seconds}") == [])
    other.close()


def sleeping_s() -> int:
    """Return a time to sleep that nothing else on this machine sleeps: what does is known by it.

    Made of a process's id it would not do: other workers of pytest have the next ones.
    """
    return 10**9 + int.from_bytes(os.urandom(3))


def _runaway(seconds: int) -> str:
    """Return code that leaves a process behind: new session, no parent, no environment, deaf."""
    return f"""
begun, begins = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (1, 2, 3, 15):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, begins)
        os.closerange(begins + 1, 64)
        os.execve("/bin/sleep", ["sleep", "{seconds}"], {{}})
    os._exit(0)
os.wait()
os.close(begins)
os.read(begun, 1)  # the other end is closed as the sleeping begins
"""


def running(mark: str) -> list[str]:
    """Return the processes of this machine whose command line holds the mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if mark.encode() in file.read():
                        found.append(name)
            except OSError:
                continue
    return found
