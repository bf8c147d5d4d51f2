"""Who works: `midstream workers`, and the same words in the console."""

import pytest

from midstream.app.worker_lines import NOBODY, worker_lines, worker_object
from midstream.cli.main import exit_code
from midstream.runtime.storage import WorkerInfo

SEEN = WorkerInfo(
    owner="a1",
    host="zoo",
    pid=7,
    version="0",
    since=1_700_000_000.0,
    max_runs=4,
    queues=("slow",),
    workspaces=("/srv/*",),
    refuses={"/srv/x": "It is not trusted.\nSo."},
    runs=("abc", "def"),
    seen_s=1.2,
)


def test_a_line_says_where_a_worker_is_and_those_below_what_it_has() -> None:
    [first, folders, runs, refused] = worker_lines([SEEN], now=1_700_000_060.0)

    assert first.startswith("zoo 7 · 2 of 4 runs · slow · since ")
    assert first.endswith(" · seen 1 s ago")
    assert folders == "  folders: /srv/*"
    assert runs == "  runs: abc def"
    assert refused.startswith("  refuses /srv/x: It is not trusted.")
    assert worker_lines([], now=0.0) == [NOBODY]


def test_a_program_gets_all_that_is_known() -> None:
    told = worker_object(SEEN)

    assert set(SEEN.__struct_fields__) == told.keys() - {"type"}
    assert (told["type"], told["runs"]) == ("worker", ("abc", "def"))


@pytest.mark.parametrize("command", ["workers", "worker"])
def test_of_a_file_it_is_said_that_no_workers_share_it(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code([command]) == 2
    said = capfd.readouterr().err
    assert said.startswith(
        "midstream: Workers share a journal in PostgreSQL, and this one is of this machine alone"
    )
    assert "MIDSTREAM_JOURNAL=postgresql://" in said
