"""Lines that wait, above the prompt: each with what becomes of it, on any width."""

import pytest

from midstream.tui.frame_rows import waiting_rows
from midstream.views.cells import width_of
from midstream.views.run_status import Waiting

QUEUED = Waiting(
    id="a", text="and the tests?", fate="waits until review is done", brief="after review"
)
STEERED = Waiting(
    id="b", text="in German", fate="joins the next request of ada", brief="next request"
)


def shown(*waiting: Waiting, width: int) -> list[str]:
    return ["".join(text for _, text in row) for row in waiting_rows(waiting, width)]


def test_each_line_says_what_becomes_of_it_and_the_newest_how_to_have_it_back() -> None:
    assert shown(QUEUED, STEERED, width=80) == [
        "⏳ and the tests? · waits until review is done",
        "⏳ in German · joins the next request of ada · Up takes it back",
    ]


def test_on_forty_columns_both_are_shorter() -> None:
    assert shown(QUEUED, STEERED, width=40) == [
        "⏳ and the tests? · after review",
        "⏳ in German · next request",
    ]


@pytest.mark.parametrize("width", [1, 4, 10, 20, 40, 80, 200])
def test_a_long_line_never_takes_more_than_its_row(width: int) -> None:
    long = Waiting(id="a", text="字" * 300 + "\n\x1b[2J", fate="f" * 50, brief="b" * 30)
    rows = shown(long, width=width)

    assert len(rows) == 1
    assert width_of(rows[0]) <= max(4, width)
    assert "\x1b" not in rows[0]


def test_of_many_lines_the_newest_are_shown_and_the_others_counted() -> None:
    many = [
        Waiting(id=str(n), text=f"line {n}", fate="waits", brief="waits", can_be_withdrawn=n < 4)
        for n in range(6)
    ]

    assert shown(*many, width=80) == [
        "   +3 more waiting",
        "⏳ line 3 · waits · Up takes it back",
        "⏳ line 4 · waits",
        "⏳ line 5 · waits",
    ]
