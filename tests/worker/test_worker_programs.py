"""Real workers on a real database: one is killed, one leaves, words and answers come from elsewhere."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from console_kit import MIDSTREAM, changed, write_workflow
from deadline import DEADLINE_S, wait_until
from pipes_kit import Ended, events, finished, run, started
from support.openai_server import Body, Call, Gate, OpenAIServer, Reply, Step
from support.postgres import PostgresServer

JOB = {
    "workflow_name": "job",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude"},
        {"name": "resume", "agent": "dude"},
        {"name": "stop"},
    ],
}
NOTE = """
from pathlib import Path

import midstream

@midstream.tool(effect="once", needs_approval=False)
def note(text: str) -> str:
    \"\"\"Write a line that must be written once only.\"\"\"
    with Path({path!r}).open("a") as file:
        file.write(text + "\\n")
    return "written"
"""


LASTING = changed("from midstream.store.postgres import tables", "tables.TTL_S = 30.0")
"""A worker that is not ended where the computer stands still for some seconds."""


class Team:
    """A folder, its database and model, and the programs that work there."""

    def __init__(self, home: Path, server: OpenAIServer, journal: str) -> None:
        self.home = home
        self.server = server
        self.env = {"MIDSTREAM_JOURNAL": journal, "MIDSTREAM_HOST": "zoo"}
        self.noted = home / "noted"
        write_workflow(home / "config", "job", JOB)
        (home / "config" / "tools").mkdir()
        source = NOTE.format(path=str(self.noted))
        (home / "config" / "tools" / "note.py").write_text(source, encoding="utf-8")
        self.programs: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str) -> Ended:
        """Run a command to its end."""
        return run(self.home, *arguments, server=self.server, env=self.env)

    def begun(self, input: str) -> str:
        """Return the id of a run that workers are to go on with; no model is there where it begins."""
        ended = run(self.home, "run", "job", input, "--detach", env=self.env)
        assert ended.code == 0, ended.err
        assert "offline" not in ended.err  # a slow database may be waited for aloud
        return ended.out.strip()

    def worker(self, *options: str, program: Sequence[str] = LASTING) -> "Log":
        """Return the log of a worker that has started."""
        process = started(
            self.home,
            "worker",
            "--json",
            *options,
            server=self.server,
            env=self.env,
            program=program,
        )
        self.programs.append(process)
        log = Log(process)
        log.until("began")
        return log

    def close(self) -> None:
        """Kill what is left."""
        for process in self.programs:
            process.kill()
            process.communicate()


class Log:
    """What a worker says it does."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    def until(self, kind: str, times: int = 1, **more: str) -> list[dict[str, Any]]:
        """Return the events of a kind once there are so many."""
        while True:
            found = [
                each
                for each in self.lines
                if each["type"] == kind and all(each[key] == more[key] for key in more)
            ]
            if len(found) >= times:
                return found
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line, f"it has ended: {self.lines}"
            self.lines.append(json.loads(line))


@pytest.fixture
def team(tmp_path: Path, database: Callable[[], str]) -> Iterator[Callable[..., Team]]:
    made: list[Team] = []

    def make(server: OpenAIServer, journal: str = "") -> Team:
        made.append(Team(tmp_path, server, journal or database()))
        return made[-1]

    yield make
    for each in made:
        each.close()


def page(address: str, name: str) -> tuple[int, str]:
    """Return what a worker answers about how it is."""
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port))
    connection.request("GET", f"/{name}")
    answer = connection.getresponse()
    told = answer.status, answer.read().decode()
    connection.close()
    return told


def asked_of(body: Body) -> tuple[str, int]:
    """Return the first words of a run, and how many results of tools it has by now."""
    messages: Any = body["messages"]
    first = next(each for each in messages if each["role"] == "user")
    return str(first["content"]), sum(each["role"] == "tool" for each in messages)


def test_what_a_killed_worker_had_goes_on_in_another_and_nothing_is_done_twice(
    team: Callable[..., Team],
) -> None:
    gates = [Gate() for _ in range(4)]
    held = iter(gates)

    def think(body: Body) -> Step:
        words, results = asked_of(body)
        if not results:
            return Reply(calls=(Call(name="note", arguments={"text": words}),))
        gate = next(held, None)
        return Reply(text="All done here.", gate=gate)

    with OpenAIServer(default=think) as server:
        here = team(server)
        jobs = [f"job {number}" for number in range(4)]
        first = here.worker("--max-runs", "4")
        ids = {here.begun(job) for job in jobs}
        for gate in gates:
            gate.reached.wait()
        second = here.worker()
        listed = events(here.run("workers", "--json").out)
        assert sorted(len(each["runs"]) for each in listed) == [0, 4]
        first.process.send_signal(signal.SIGKILL)
        for gate in gates:
            gate.open()
        for id in ids:
            second.until("let_go", run=id, why="finished")

        assert sorted(here.noted.read_text(encoding="utf-8").split("\n")) == ["", *jobs]
        taken = second.until("taken", times=4)
        assert all(each["was_cut"] for each in taken)


def test_whose_connections_are_cut_keeps_its_runs(
    team: Callable[..., Team], postgres: PostgresServer, database: Callable[[], str]
) -> None:
    gate = Gate()
    journal = database()

    def think(body: Body) -> Step:
        return Reply(text="All done here.", gate=None if asked_of(body)[0] == "other" else gate)

    with OpenAIServer(default=think) as server:
        here = team(server, journal)
        first = here.worker("--max-runs", "1")
        id = here.begun("job")
        gate.reached.wait()
        second = here.worker()
        for number in range(5):
            postgres.reset(journal.rpartition("/")[2])
            # It looks for what it may take.
            second.until("let_go", run=here.begun("other"), why="finished")
            assert len(second.until("taken")) == number + 1
        gate.open()
        first.until("let_go", run=id, why="finished")


@pytest.mark.needs("pgbouncer")
def test_behind_a_pooler_of_sessions_all_is_as_without(
    team: Callable[..., Team], postgres: PostgresServer, database: Callable[[], str]
) -> None:
    gate = Gate()

    def think(body: Body) -> Step:
        heard = "no, the other" in str(body["messages"])
        return Reply(text="All done here.", gate=None if heard else gate)

    with postgres.pooler("session") as port, OpenAIServer(default=think) as server:
        here = team(server, database().replace(f":{postgres.port}/", f":{port}/"))
        first = here.worker()
        id = here.begun("job")
        gate.reached.wait()
        assert here.run("send", id, "no, the other").code == 0
        first.until("let_go", run=id, why="finished")
        gate.open()

        heard = [
            each
            for each in events(here.run("events", id, "--json").out)
            if each["type"] == "interrupted"
        ]
        assert [each["text"] for each in heard] == ["no, the other"]


def test_a_worker_that_is_told_to_leave_gives_back_what_it_has(team: Callable[..., Team]) -> None:
    gate = Gate()
    held = iter([gate])

    def think(body: Body) -> Step:
        words, results = asked_of(body)
        if not results:
            call = Call(name="note", arguments={"text": words})
            return Reply(text="I write.", calls=(call,), gate=next(held, None))
        return Reply(text="All done here.")

    with OpenAIServer(default=think) as server:
        here = team(server)
        first = here.worker("--health", "127.0.0.1:0")
        id = here.begun("job")
        gate.reached.wait()
        [address] = [each["address"] for each in first.until("began") if "address" in each]
        assert page(address, "readyz") == (200, "ok\n")
        assert "midstream_worker_runs 1" in page(address, "metrics")[1]
        first.process.send_signal(signal.SIGTERM)
        first.until("leaving")
        assert page(address, "readyz") == (503, "it leaves\n")
        assert page(address, "healthz") == (200, "ok\n")
        [seen] = events(here.run("workers", "--json").out)
        assert (seen["is_leaving"], seen["runs"]) == (True, [id])
        gate.open()
        first.until("let_go", run=id, why="the worker leaves")
        assert finished(first.process).code == 0
        assert here.run("workers").out.startswith("No worker lives.")

        second = here.worker()
        second.until("let_go", run=id, why="finished")
        assert here.noted.read_text(encoding="utf-8") == "job\n"
        [taken] = second.until("taken")
        assert taken["was_cut"] is False
        asked = [asked_of(exchange.body)[1] for exchange in server.exchanges]
        assert asked == [0, 1], "a reply that was under way was not asked for again"


def test_words_and_answers_come_from_other_processes(team: Callable[..., Team]) -> None:
    gate = Gate()

    def think(body: Body) -> Step:
        messages: Any = body["messages"]
        said = [str(each["content"]) for each in messages if each["role"] == "user"]
        if messages[-1]["role"] == "tool":
            return Reply(text=f"You said {messages[-1]['content']}.")
        if "stop that" in said[-1]:
            ask = Call(name="request_users_input", arguments={"question": "Which?"})
            return Reply(calls=(ask,))
        return Reply(text="One two three four.", gate=gate)

    with OpenAIServer(default=think) as server:
        here = team(server)
        here.worker()
        second = here.worker()
        id = here.begun("count")
        gate.reached.wait()
        # Whichever has it: the words are sent by a third process, and the reply is cut.
        sent = here.run("send", id, "stop that", "--wait")
        assert "interrupted" in sent.out
        gate.open()
        waits = here.run("events", id, "--json")
        assert '"interrupted"' in waits.out
        second.process.send_signal(signal.SIGTERM)
        assert finished(second.process).code == 0
        third = here.worker()
        here.programs[0].send_signal(signal.SIGTERM)
        assert finished(here.programs[0]).code == 0

        answered = here.run("send", id, "the first")
        assert answered.code == 0, answered.err
        third.until("let_go", run=id, why="finished")
        ended = here.run("events", id, "--json").out
        assert "You said the first." in ended


def test_a_worker_that_stands_still_is_ended_and_its_runs_go_on(team: Callable[..., Team]) -> None:
    gate = Gate()
    held = iter([gate])

    def think(body: Body) -> Step:
        _, results = asked_of(body)
        if not results:
            return Reply(calls=(Call(name="note", arguments={"text": "once"}),))
        return Reply(text="All done here.", gate=next(held, None))

    with OpenAIServer(default=think) as server:
        here = team(server)
        first = here.worker(program=MIDSTREAM)
        id = here.begun("job")
        gate.reached.wait()
        second = here.worker()
        first.process.send_signal(signal.SIGSTOP)
        second.until("let_go", run=id, why="finished")

        # Killed by the program beside it: nobody else would have ended what stands still.
        assert first.process.wait(DEADLINE_S) == -signal.SIGKILL
        assert here.noted.read_text(encoding="utf-8") == "once\n"


def test_workers_outlive_the_database(tmp_path: Path, postgres: PostgresServer) -> None:
    gate = Gate()
    held = iter([gate])

    def think(body: Body) -> Step:
        return Reply(text="All done here.", gate=next(held, None))

    with PostgresServer.made() as database, OpenAIServer(default=think) as server:
        here = Team(tmp_path, server, database.database())
        try:
            one = here.worker(program=MIDSTREAM)
            id = here.begun("job")
            gate.reached.wait()
            database.kill()
            one.until("lost")
            database.start()
            one.until("began", times=2)
            one.until("let_go", run=id, why="finished")
        finally:
            here.close()


def test_a_worker_whose_tool_cannot_be_stopped_is_ended_once_the_database_is_away(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    calls = (Call(name="note", arguments={"text": "for ever"}),)
    with PostgresServer.made() as database, OpenAIServer(default=Reply(calls=calls)) as server:
        here = Team(tmp_path, server, database.database())
        tool = here.home / "config" / "tools" / "note.py"
        tool.write_text(tool.read_text("utf-8") + "    while True:\n        pass\n", "utf-8")
        tool.write_text(tool.read_text("utf-8").replace('    return "written"\n', ""), "utf-8")
        try:
            one = here.worker(program=MIDSTREAM)
            here.begun("job")
            wait_until(here.noted.exists, "the tool is called")
            database.kill()
            one.until("lost")

            assert one.process.wait(DEADLINE_S) == -signal.SIGKILL
        finally:
            here.close()
