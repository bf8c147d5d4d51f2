"""What a tool did to files: its difference on the screen where nobody has seen it before."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.events import AnyFact, QuestionAnswered, QuestionAsked, ToolCalled, ToolReturned
from midstream.core.notices import AnyNotice, Envelope, FileChanged
from midstream.core.question import Question
from midstream.system.diff import MAX_TOLD_CHARS, MAX_TOLD_LINES, file_diff
from midstream.tui.changed_lines import MAX_ROWS, diff_lines
from midstream.tui.event_lines import Block
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import Line, to_plain
from midstream.tui.themes import NO_COLOUR, sgr

CALLED = ToolCalled(
    call_id="c1",
    name="edit_file",
    arguments={"path": "a.py", "edits": [{"old_text": "x = 1", "new_text": "x = 2"}]},
    agent="ada",
)
CHANGED = FileChanged(
    call_id="c1", path="a.py", added=1, removed=1, diff="@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y = 3"
)
RETURNED = ToolReturned(
    call_id="c1", name="edit_file", outcome="completed", result="Edited a.py: replaced at line 1."
)


def told(*events: AnyFact | AnyNotice, renderer: EventRenderer | None = None) -> str:
    teller = EventRenderer(with_cards=True) if renderer is None else renderer
    blocks: list[Block] = []
    for event in events:
        blocks += teller.render(Envelope(run="r", at=0.0, event=event, seq=1))
    return to_plain(block for block in blocks if isinstance(block, Line))


def test_a_change_nobody_was_asked_about_is_shown_as_a_difference() -> None:
    assert told(CALLED, CHANGED, RETURNED) == (
        "✓ edit_file(a.py) · +1 -1\n  ┊ @@ -1,2 +1,2 @@\n  ┊ -x = 1\n  ┊ +x = 2\n  ┊  y = 3\n"
    )


def test_what_its_checkers_say_is_a_line_below_it() -> None:
    noted = msgspec.structs.replace(RETURNED, note="2 new problems: ruff")

    assert told(CALLED, CHANGED, noted) == (
        "✓ edit_file(a.py) · +1 -1\n  ┊ @@ -1,2 +1,2 @@\n  ┊ -x = 1\n  ┊ +x = 2\n  ┊  y = 3\n"
        "· 2 new problems: ruff\n"
    )


ASKED = QuestionAsked(
    question_id="q", number=1, kind="approval", text="edit_file\n...", agent="ada", call_id="c1"
)
YES = QuestionAnswered(question_id="q", answer="yes")


def test_a_change_allowed_on_a_card_that_is_gone_is_shown_as_a_difference() -> None:
    assert told(ASKED, YES, CALLED, CHANGED, RETURNED).endswith(
        "✓ edit_file(a.py) · +1 -1\n  ┊ @@ -1,2 +1,2 @@\n  ┊ -x = 1\n  ┊ +x = 2\n  ┊  y = 3\n"
    )


def test_a_change_asked_about_in_lines_that_stay_is_one_line() -> None:
    text = told(*(ASKED, YES, CALLED, CHANGED, RETURNED), renderer=EventRenderer(with_cards=False))

    assert text.split("\n")[-2] == "✓ edit_file(a.py) · +1 -1"
    assert "x = 2" not in text


def test_a_change_that_was_printed_whole_when_asked_about_is_not_printed_again() -> None:
    renderer = EventRenderer(with_cards=True)
    told(ASKED, renderer=renderer)
    asked = Question(id="q1", number=1, kind=ASKED.kind, text=ASKED.text, call_id=ASKED.call_id)
    renderer.printed("r", asked)

    text = told(YES, CALLED, CHANGED, RETURNED, renderer=renderer)

    assert text.endswith("✓ edit_file(a.py) · +1 -1\n")
    assert "x = 2" not in text


def test_a_new_file_is_said_to_be_one() -> None:
    fact = ToolReturned(
        call_id="c1", name="write_file", outcome="completed", result="Created a.py (1 line)."
    )

    assert "· created, +1 -1" in told(CALLED, CHANGED, fact)


def test_a_file_written_as_it_was_has_no_difference() -> None:
    same = FileChanged(call_id="c1", path="a.py", added=0, removed=0, diff="")
    fact = ToolReturned(
        call_id="c1", name="write_file", outcome="completed", result="Replaced a.py (1 line)."
    )

    assert told(CALLED, same, fact) == "✓ edit_file(a.py) · Replaced a.py (1 line).\n"


def test_a_change_that_was_not_completed_says_why_and_shows_what_it_did() -> None:
    fact = ToolReturned(call_id="c1", name="edit_file", outcome="unknown", result="It was cut.")

    text = told(CALLED, CHANGED, fact)

    assert "outcome unknown: It was cut." in text
    assert "+x = 2" in text


def test_a_long_difference_is_capped_and_whole_in_verbose_and_on_demand() -> None:
    diff = "\n".join(["@@ -0,0 +1,99 @@", *(f"+line {number}" for number in range(99))])
    long = FileChanged(call_id="c1", path="a.py", added=99, removed=0, diff=diff)
    renderer = EventRenderer(with_cards=True)

    short = told(CALLED, long, RETURNED, renderer=renderer)
    renderer.manner.is_verbose = True
    whole = told(CALLED, long, RETURNED, renderer=renderer)

    assert short.count("\n") == 1 + MAX_ROWS
    assert short.endswith("[+81 more lines: Ctrl-O]\n")
    assert "line 98" in whole
    assert "line 98" in str(renderer.last_in_full())


def test_what_differs_in_a_line_is_marked_without_colour_too() -> None:
    _, old, new = diff_lines("@@\n-total = price + tax\n+total = cost + tax")

    assert [text for _, text in old.fragments] == ["-total = ", "price", " + tax"]
    assert [text for _, text in new.fragments] == ["+total = ", "cost", " + tax"]
    assert sgr(old.fragments[1][0], NO_COLOUR) == "4"


def test_lines_with_little_in_common_are_not_marked() -> None:
    _, old, new = diff_lines("@@\n-alpha\n+omega zeta")

    assert len(old.fragments) == len(new.fragments) == 1


@given(st.lists(st.sampled_from(["-a b", "+a c", " d", "@@ -1 +1 @@", "-", "+", "\\ No", "-é\r"])))
def test_every_line_of_a_difference_is_shown_as_it_is(lines: list[str]) -> None:
    diff = "\n".join(lines)

    shown = ["".join(text for _, text in line.fragments) for line in diff_lines(diff)]

    assert shown == diff.replace("\r", "\u240d").split("\n")


@pytest.mark.parametrize("control", ["\x1b[2J", "\u202e", "\x9b31m"])
def test_what_a_file_holds_cannot_leave_its_line(control: str) -> None:
    evil = FileChanged(call_id="c1", path="a.py", added=1, removed=0, diff=f"@@ @@\n+{control}x")

    assert control not in told(CALLED, evil, RETURNED)


# --- made by the tools --------------------------------------------------------------------------

texts = st.text(alphabet="ab\n", max_size=40)


@given(before=texts, after=texts)
def test_the_figures_are_those_of_the_difference(before: str, after: str) -> None:
    found = file_diff("f", before.encode(), after.encode())
    lines = found.diff.split("\n")

    assert found.added == sum(line.startswith("+") for line in lines)
    assert found.removed == sum(line.startswith("-") for line in lines)
    assert found.added - found.removed == _lines(after) - _lines(before)


def _lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def test_a_large_change_is_counted_whole_and_told_in_part() -> None:
    old = "".join(f"old {number}\n" for number in range(5_000))
    new = "".join(f"new {number}\n" for number in range(4_000))

    found = file_diff("f", f"same\n{old}".encode(), f"same\n{new}".encode())

    assert (found.added, found.removed) == (4_000, 5_000)
    assert len(found.diff) < MAX_TOLD_CHARS + 600
    assert found.diff.count("\n") <= MAX_TOLD_LINES
    assert found.diff.endswith("more lines]")


def test_what_is_no_text_is_told_by_its_sizes() -> None:
    assert file_diff("f", None, b"\0\1").diff == "[not text: no file before, 2 bytes after]"


def test_a_secret_in_a_difference_is_not_told() -> None:
    key = "sk-ant-api03-" + "Zq7Xw2Kd9Lm4Pn8R" * 5

    assert "Zq7X" not in file_diff("f", b"", f"KEY = '{key}'\n".encode()).diff


@given(old=st.text(alphabet="ab (.", max_size=20), new=st.text(alphabet="ab (.", max_size=20))
def test_marking_words_loses_none(old: str, new: str) -> None:
    _, one, other = diff_lines(f"@@\n-{old}\n+{new}")

    assert "".join(text for _, text in one.fragments) == f"-{old}"
    assert "".join(text for _, text in other.fragments) == f"+{new}"
