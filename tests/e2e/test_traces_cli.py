"""Traces as a person has them: live, after kill -9, later, and from a command line that says what to do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import PROGRAM_S, wait_until
from support.collector import Collector

pytestmark = pytest.mark.slow

FLOW = {
    "workflow_name": "rest",
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "dude", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "dude", "next": "rest"},
        {"name": "rest", "wait": {"seconds": 3}, "next": "stop"},
        {"name": "stop"},
    ],
}


class Program:
    """midstream with a home of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.work = folder / "work"
        flows = folder / "config/workflows"
        flows.mkdir(parents=True)
        self.work.mkdir()
        (flows / "rest.json").write_text(json.dumps(FLOW))
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("OTEL_")},
            "MIDSTREAM_CONFIG_HOME": str(folder / "config"),
            "MIDSTREAM_STATE_HOME": str(folder / "state"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        }

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start it."""
        return subprocess.Popen(
            [sys.executable, "-m", "midstream", *arguments],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ran(self, *arguments: str) -> tuple[int, str, str]:
        """Run it to its end; return exit code, stdout and stderr."""
        process = self.begin(*arguments)
        out, err = process.communicate(timeout=PROGRAM_S)
        return process.returncode, out, err


def test_a_run_killed_and_resumed_is_one_trace_live_and_later(tmp_path: Path) -> None:
    with Collector() as collector:
        program = Program(tmp_path, collector.url)
        process = program.begin("run", "--model", "offline", "rest", "go")
        wait_until(lambda: collector.spans, "the first spans")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert all(span.parent for span in collector.spans.values()), "the run has not ended"
        id = next(iter(collector.spans.values())).attributes["midstream.run.id"]

        code, _, err = program.ran("resume", id, "--model", "offline")

        assert code == 0, err
        assert "traces" not in err
        live = dict(collector.whole())
        assert {s.name for s in live.values()} >= {
            "invoke_workflow rest",
            "state start",
            "state rest",
        }
        [rest] = collector.named("state rest")
        assert [name for name, _, _ in rest.events] == ["midstream.recovered"]
        assert collector.total("midstream.recoveries") == 1

        code, out, err = program.ran("export", id, "--otlp")
        assert (code, err) == (0, "")
        assert out.startswith(f"Sent {len(live)} spans and ")
        assert collector.whole() == live


def test_what_went_wrong_is_one_line(tmp_path: Path) -> None:
    with Collector() as collector:
        gone = collector.url
    program = Program(tmp_path, gone)
    code, out, err = program.ran("run", "--json", "--model", "offline", "rest", "go")
    assert code == 0
    id = json.loads(out.splitlines()[0])["run"]
    heard = [line for line in out.splitlines() if json.loads(line)["type"] == "listener_failed"]
    assert len(heard) + err.count("not all traces") + err.count("Not all traces") == 1

    code, out, err = program.ran("export", id, "--otlp", gone)
    assert (code, out) == (1, "")
    assert "cannot be reached" in err
    assert program.ran("export", id, "--otlp", "nonsense:1")[0] == 2
    assert program.ran("export", id, "x.jsonl", "--content")[0] == 2
    assert program.ran("export", id, "--otlp", gone, "--with-files")[0] == 2
    assert program.ran("export", "zzzzzzzz", "--otlp", gone)[0] == 2

    with Collector() as collector:
        code, out, _ = program.ran("export", id, "--otlp", collector.url)
        assert code == 0
        assert collector.whole()
