"""Workflows written in Python, started, looked at and taken up again by the real program."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from console_kit import console
from pipes_kit import MODEL, OFFLINE, Ended, finished, run, started, workspace_of
from support.model_server import Gate
from support.openai_server import OpenAIServer, Reply

from midstream.config.trust import TrustStore

FLOW = '''"""Shouts what it was given."""

from pathlib import Path

import midstream
from midstream import stop

Path("imported").touch()


@midstream.tool(effect="read")
def measure(text: str) -> int:
    """Return how long a text is."""
    return len(text)


flow = midstream.Workflow("shout", input=str, tools=[measure])
aside = midstream.Workflow("aside")


@flow.start(call="measure", arguments={"text": "${input}"})
def begin(run):
    run.data["long"] = run.result
    return again if run.input == "twice" else done


@flow.state
def again(run):
    return done


@flow.state
def done(run):
    return stop(f"{run.input.upper()}! ({run.data['long']})")


@aside.start
def only(run):
    return stop("aside")
'''

TALK = """import midstream
from midstream import stop

flow = midstream.Workflow("talk", input=str)
poet = flow.agent("poet", system="You write haiku.")
critic = flow.agent("critic", system="You judge haiku.")


@flow.start(ask=poet, prompt="About ${input}")
def write(run):
    run.data["haiku"] = run.reply
    return look


@flow.state(ask=critic, prompt="${common_data.haiku}")
def look(run):
    return stop(run.data["haiku"] + ", " + run.reply + " [first]")
"""

ASKING = """import midstream

flow = midstream.Workflow("asking", input=str)


@flow.start(question="Ready?")
def begin(run):
    return midstream.stop(run.result)
"""


def put(home: Path, text: str, name: str = "shouting.py") -> Path:
    """Write a Python file into the workspace."""
    file = workspace_of(home) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def named(home: Path, name: str = "shouting.py") -> str:
    return str(workspace_of(home) / name)


def was_imported(home: Path) -> bool:
    """Return whether a file ran that leaves its mark."""
    return (workspace_of(home) / "imported").exists()


def marking(home: Path, text: str = FLOW) -> str:
    """Return the text of a file that leaves its mark in the workspace once it runs."""
    return text.replace('Path("imported")', f"Path({str(workspace_of(home) / 'imported')!r})")


def test_a_file_is_run_drawn_explained_and_checked_by_its_path(tmp_path: Path) -> None:
    put(tmp_path, marking(tmp_path))
    name = f"{named(tmp_path)}:flow"

    ran = run(tmp_path, "run", name, "twice", *OFFLINE)
    drawn = run(tmp_path, "graph", name, "--json")
    explained = run(tmp_path, "explain", name)
    checked = run(tmp_path, "validate", name, named(tmp_path))

    assert (ran.code, ran.out) == (0, "TWICE! (5)\n"), ran.err
    edges = {(edge["source"], edge["target"]) for edge in json.loads(drawn.out)["edges"]}
    assert {("begin", "again"), ("begin", "done"), ("again", "done"), ("done", "stop")} <= edges
    assert ("begin", "") not in edges, "where a function leads is known"
    assert "What each state does" in explained.out
    assert (checked.code, checked.out) == (0, "No problems.\n"), checked.err


def test_it_is_found_by_name_once_its_workspace_is_trusted_and_not_imported_before(
    tmp_path: Path,
) -> None:
    put(tmp_path, marking(tmp_path), ".midstream/workflows/shouting.py")
    path = named(tmp_path, ".midstream/workflows/shouting.py")

    for refused in (
        run(tmp_path, "run", "shouting", "x", *OFFLINE),
        run(tmp_path, "run", path, "x", *OFFLINE),
        run(tmp_path, "graph", "shouting"),
        run(tmp_path, "explain", path),
    ):
        assert refused.code == 3, refused.err
        assert "not trusted" in refused.told
    assert "not trusted" in run(tmp_path, "validate", "shouting").out
    assert not was_imported(tmp_path), "nothing of it ran before the yes"

    listed = run(tmp_path, "workflows", "--trust-workspace")
    ran = run(tmp_path, "run", "shouting", "x", *OFFLINE, "--trust-workspace")
    trust = TrustStore(tmp_path / "state")
    trust.grant(trust.status(workspace_of(tmp_path)))
    checked = run(tmp_path, "validate")
    put(tmp_path, '{"workflow_name": "odd"}', ".midstream/workflows/odd.json")
    put(tmp_path, "1 / 0", ".midstream/workflows/broken.py")
    trust.grant(trust.status(workspace_of(tmp_path)))
    for folder in ("", workspace_of(tmp_path) / ".midstream", workspace_of(tmp_path)):
        told = run(tmp_path, "validate", *filter(None, [str(folder)])).out
        assert "broken.py:1:1" in told, "a folder's are checked with its JSON"
        assert "odd.json" in told
    assert "Shouts what it was given." in listed.out
    assert (ran.code, ran.out) == (0, "X! (1)\n"), ran.err
    assert checked.out == "No problems.\n"
    assert was_imported(tmp_path)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (FLOW, ":flw", "has no 'flw'. Did you mean 'flow'?"),
        (FLOW, ":measure", "'measure' in"),
        (
            FLOW,
            ":measure",
            "is no Workflow, but of the type function. Workflows in it: aside, flow",
        ),
        (
            FLOW.replace("flow", "loud").replace("Workloud", "Workflow"),
            "",
            "has several workflows: aside, loud. Name one of them",
        ),
        ("x = 1\n", "", "has no workflow. Make one at its top level"),
        ("\n1 / 0\n", "", "importing the script raised ZeroDivisionError"),
        ("\nraise SystemExit(0)\n", "", "importing the script raised SystemExit"),
        ("def (\n", "", "shouting.py:1: invalid syntax"),
        (
            FLOW.replace("return done", "return 'nowhere'"),
            "",
            "nowhere, which is no state of shout",
        ),
        (FLOW.replace("${input}", "${common_data.}"), "", "shouting.py:21:1 begin.arguments.text"),
        (FLOW.replace('call="measure"', "wait={1}"), "", ".wait is {1} (set), which is no JSON"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_words(
    tmp_path: Path, text: str, name: str, words: str
) -> None:
    put(tmp_path, marking(tmp_path, text))

    ran = run(tmp_path, "run", f"{named(tmp_path)}{name}", "x", *OFFLINE)
    checked = run(tmp_path, "validate", f"{named(tmp_path)}{name}")

    assert ran.code == 1, ran.err
    assert words in ran.told
    assert checked.code == 1
    assert words.removeprefix("shouting.py:1: ") in " ".join(checked.out.split())


def test_a_file_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    for command in ("run", "graph", "explain"):
        ended = run(tmp_path, command, f"{named(tmp_path, 'gone.py')}:flow")
        assert ended.code == 2
        assert "There is no file" in ended.told


@contextmanager
def killed(home: Path) -> Iterator[tuple[str, OpenAIServer]]:
    """Kill a run in the middle of its second reply; give its id and the server."""
    gate = Gate()
    cut = Reply(chunks=("It is ", "good"), gate=gate, gate_after=1)
    with OpenAIServer([Reply(text="Old pond"), cut, Reply(text="fine")]) as server:
        process = started(home, "run", f"{named(home)}:flow", "rain", *MODEL, server=server)
        gate.reached.wait()
        process.send_signal(signal.SIGKILL)
        finished_as_killed(process)
        gate.open()
        yield json.loads(run(home, "runs", "--json").out.splitlines()[0])["run"], server


def finished_as_killed(process: object) -> Ended:
    ended = finished(process)  # type: ignore[arg-type]
    assert ended.code == -signal.SIGKILL
    return ended


def test_a_run_that_was_killed_goes_on_from_its_file_without_being_told_where_that_is(
    tmp_path: Path,
) -> None:
    put(tmp_path, TALK)
    with killed(tmp_path) as (id, server):
        ended = run(tmp_path, "resume", id, *MODEL, server=server)

        assert (ended.code, ended.out) == (0, "Old pond, fine [first]\n"), ended.err
        assert len(server.requests) == 3, "the first reply was not asked for again"


@pytest.mark.parametrize(("choice", "said"), [("--old", "first"), ("--new", "second")])
def test_a_file_that_changed_is_told_and_not_imported_before_a_person_chose(
    tmp_path: Path, choice: str, said: str
) -> None:
    put(tmp_path, TALK)
    with killed(tmp_path) as (id, server):
        mark = '\nfrom pathlib import Path\nPath("imported").touch()\n'
        put(tmp_path, marking(tmp_path, TALK.replace("first", "second") + mark))
        asked = run(tmp_path, "resume", id, *MODEL, server=server)
        assert asked.code == 2
        assert "shouting.py changed (+4 -1 lines)" in asked.told
        assert f"midstream resume {id} --old" in asked.told
        assert not was_imported(tmp_path)

        chosen = run(tmp_path, "resume", id, choice, *MODEL, server=server)
        assert (chosen.code, chosen.out) == (0, f"Old pond, fine [{said}]\n"), chosen.err
        assert was_imported(tmp_path) == (choice == "--new")


@pytest.mark.journal_file
def test_a_run_that_was_brought_here_names_no_file_to_import(tmp_path: Path) -> None:
    put(tmp_path, TALK)
    with killed(tmp_path) as (id, server):
        exported = tmp_path / "run.jsonl"
        assert run(tmp_path, "export", id, str(exported)).code == 0
        shutil.rmtree(tmp_path / "state")
        assert run(tmp_path, "import", str(exported)).code == 0
        forked = run(tmp_path, "fork", id, "--at", "8").out.split()[1]
        put(tmp_path, marking(tmp_path, FLOW))
        for choice in ((), ("--old",), ("--new",)):
            ended = run(tmp_path, "resume", forked, *choice, *MODEL, server=server)
            assert ended.code == 2
            assert "a workflow that no name here leads to" in ended.told
    assert not was_imported(tmp_path)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    put(tmp_path, TALK)
    with killed(tmp_path) as (id, server):
        (workspace_of(tmp_path) / "shouting.py").unlink()
        ended = run(tmp_path, "resume", id, *MODEL, server=server)
        old = run(tmp_path, "resume", id, "--old", *MODEL, server=server)

    assert "the workflow is gone: There is no file" in ended.told
    assert old.out == "Old pond, fine [first]\n"


def test_the_console_starts_one_by_its_path_and_does_not_start_it_at_the_next_start(
    tmp_path: Path,
) -> None:
    put(tmp_path, ASKING, "sub/asking.py")
    screen = console(tmp_path, *OFFLINE)
    screen.wait_for("chat with dude")
    screen.type("/workflow sub/asking.py:flow hello\r")
    screen.wait_for("Ready?")
    screen.type("\x04")
    assert screen.wait_exit() == 0
    settings = tmp_path / "config" / "application.json"
    assert not settings.exists() or "asking" not in settings.read_text(encoding="utf-8")


def test_the_console_takes_one_up_and_tells_first_that_its_file_has_changed(
    tmp_path: Path,
) -> None:
    put(tmp_path, TALK)
    with killed(tmp_path) as (id, server):
        mark = '\nfrom pathlib import Path\nPath("imported").touch()\n'
        put(tmp_path, marking(tmp_path, TALK.replace("first", "second") + mark))
        screen = console(tmp_path, *MODEL, server=server, cols=240)
        screen.wait_for("chat with dude")
        screen.type(f"/resume {id[:4]}\r")
        screen.wait_for("shouting.py changed (+4 -1 lines)")
        assert not was_imported(tmp_path)
        screen.type(f"/resume {id[:4]} new\r")
        screen.wait_for("fine [second]")
        screen.type("\x04")
        assert screen.wait_exit() == 0
    assert was_imported(tmp_path)
