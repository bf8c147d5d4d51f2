"""`midstream doctor`: what is there, what is missing, and what to do about it."""

import json
import os
import re
import socket
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from console_kit import changed, console, json_lines, run, write_workflow
from screen import ENTER
from store_kit import edit, opened

from midstream.testing.contracts import fact

ENDPOINT = "OPENAI_BASE_URL"


def findings(tmp_path: Path, *arguments: str, **kept: Any) -> dict[str, dict[str, Any]]:
    done = run(tmp_path, "doctor", "--json", *arguments, **kept)
    assert done.returncode in (0, 1), done.stderr
    return {each["about"].strip(): each for each in json_lines(done.stdout)}


def test_everything_midstream_needs_has_a_line(tmp_path: Path) -> None:
    found = findings(tmp_path)

    assert {"midstream", "terminal", "settings", "workspace", "journal", "bash"} <= found.keys()
    assert found["journal"]["mark"] == "ok"
    assert "0 runs" in found["journal"]["words"]
    assert found["sandbox"]["words"].startswith(("full", "partial", "none"))
    assert found["bash"]["mark"] == "ok"


def test_other_peoples_agents_are_named_with_their_versions(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "qwen").write_text("#!/bin/sh\nexit 1\n")
    (programs / "qwen").chmod(0o755)
    (programs / "package.json").write_text('{"version": "9.8.7"}')
    found = findings(tmp_path, environ={"PATH": f"{programs}:{os.environ['PATH']}"})

    assert "qwen (Qwen Code 9.8.7)" in found["other agents"]["words"]


def test_extras_are_named_with_what_they_are_for_and_how_to_get_them(tmp_path: Path) -> None:
    extras = {*metadata("midstream").get_all("Provides-Extra", [])} - {"dev", "docs"}
    assert {*re.findall(r"\w+", findings(tmp_path)["extras"]["words"])} >= extras

    # An environment in which some of them cannot be found.
    hidden = tmp_path / "hidden" / "sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text(
        "import sys\nfor name in ('obstore', 'starlette'): sys.modules[name] = None\n"
    )
    found = findings(tmp_path, environ={"PYTHONPATH": str(hidden.parent)})["extras"]
    assert (
        "not installed: s3 (contents of a shared journal in S3); web (midstream web"
        in (found["words"])
    )
    assert found["hint"] == "Get what you need: pip install 'midstream[s3,web]'"


def test_a_journal_that_is_no_journal_is_bad_and_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    journal = tmp_path / "broken.db"
    journal.write_bytes(b"this is no database" * 100)
    done = run(tmp_path, "doctor", "--json", environ={"MIDSTREAM_JOURNAL": str(journal)})

    [line] = [each for each in json_lines(done.stdout) if each["about"] == "journal"]
    assert done.returncode == 1
    assert line["mark"] == "bad"
    assert journal.read_bytes() == b"this is no database" * 100


async def test_damaged_runs_are_counted_and_named_with_the_way_to_what_is_whole(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "damaged.db"
    async with opened(journal) as store:
        for name in ("whole", "torn"):
            await store.append(name, 0, [fact(name, seq) for seq in range(1, 10)])
    edit(journal, "update facts set body=x'00' where run=2 and seq=5")
    patient = changed("from midstream.cli import doctor", "doctor.CHECK_S = 3600.0")
    place = {"MIDSTREAM_JOURNAL": str(journal)}
    found = findings(tmp_path, environ=place, program=patient)["journal"]

    assert found["mark"] == "bad"
    assert "1 of 2 damaged: torn from event 5 on" in found["words"]
    assert "midstream doctor --salvage" in found["hint"]


@pytest.mark.journal_file
def test_where_large_contents_of_a_database_are_is_tried(
    tmp_path: Path, database: Callable[[], str]
) -> None:
    folder = tmp_path / "contents"
    place = {"MIDSTREAM_JOURNAL": database(), "MIDSTREAM_BLOBS": str(folder)}
    found = findings(tmp_path, environ=place)["contents"]
    assert found["mark"] == "bad"
    assert str(folder) in found["words"]

    folder.mkdir()
    found = findings(tmp_path, environ=place)["contents"]
    assert found["mark"] == "ok"
    assert str(folder) in found["words"]
    assert [path for path in folder.rglob("*") if path.is_file()] == []

    of_a_file = findings(tmp_path, environ={"MIDSTREAM_BLOBS": str(folder)})["contents"]
    assert of_a_file["mark"] == "note"
    assert "not used" in of_a_file["words"]


@pytest.mark.parametrize("listens", [True, False])
def test_a_models_server_is_reached_or_not(tmp_path: Path, listens: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        found = findings(tmp_path, "--model", "openai:m", environ={ENDPOINT: address})

    [model] = [each for about, each in found.items() if about.startswith("model")]
    assert model["mark"] == ("ok" if listens else "bad")
    assert ("answers in" if listens else "is not reached") in model["words"]


def test_a_folder_that_gets_no_sandbox_is_named(tmp_path: Path) -> None:
    found = findings(tmp_path, workspace=Path("/usr"))["sandbox"]

    assert found["mark"] == "note"
    assert found["words"].startswith("none") or "Not in this folder" in found["hint"]


def test_an_untrusted_workspace_is_named(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    write_workflow(workspace / ".midstream", "mine", {"states": [{"name": "start"}]})
    found = findings(tmp_path, workspace=workspace)

    assert "you have not trusted" in found["workspace"]["words"]
    assert "midstream trust" in found["workspace"]["hint"]


def test_the_probes_of_the_sandbox_are_listed(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--sandbox", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    level = lines[0]["words"].partition(":")[0]
    assert lines[0]["about"] == "sandbox"
    if level == "none":
        assert lines[0]["hint"]
        assert len(lines) == 1
    else:
        assert len(lines) > 15
        assert done.returncode == (0 if level == "full" else 1)


def test_models_without_a_key_are_one_line_and_the_offline_model_says_how_to_choose(
    tmp_path: Path,
) -> None:
    found = findings(tmp_path)
    assert "OPENAI_API_KEY or OPENAI_BASE_URL is not set" in found["model base/smart/fast"]["words"]

    found = findings(tmp_path, "--model", "offline")
    assert found["model base/smart/fast"]["hint"].startswith("midstream config set models ")


def test_a_person_hears_at_the_end_how_things_stand_in_all(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--model", "offline")

    last = done.stdout.splitlines()[-1]
    assert last.startswith("Everything midstream needs is there." if not done.returncode else "✗")


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_the_console_says_the_same_without_leaving_it(tmp_path: Path, cols: int) -> None:
    with console(tmp_path, "--model", "offline", cols=cols) as screen:
        screen.wait_for("chat with dude")
        screen.type("/doctor" + ENTER)
        screen.wait_for("✓ bash")
        screen.wait_for("chat with dude")

        text = " ".join(" ".join(screen.scrollback()).split())
        assert f"✓ terminal xterm-256color, {cols} x 30, utf-8 ✓ settings" in text
        assert "✓ journal keeps every run in" in text
        assert "· model base/smart/fast offline: the built-in offline model" in text


def test_where_traces_go_has_a_line_only_where_they_go_somewhere(tmp_path: Path) -> None:
    assert "traces" not in findings(tmp_path)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        there = f"http://127.0.0.1:{listening.getsockname()[1]}"
        found = findings(tmp_path, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": there})["traces"]
        assert (found["mark"], f"{there}/v1/traces, without words" in found["words"]) == (
            "ok",
            True,
        )
    gone = findings(tmp_path, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": there})["traces"]
    assert gone["mark"] == "note"
