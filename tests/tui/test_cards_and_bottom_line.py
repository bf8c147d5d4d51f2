"""What stands around the prompt, on wide terminals and on twenty columns."""

import msgspec
import pytest
from fake_session import asked

from midstream.app.ui import Status
from midstream.core.events import AgentResponded, QuestionAsked, ToolCalled
from midstream.core.notices import TextDelta
from midstream.core.question import Question
from midstream.language.names import Json
from midstream.safety.capability import SHOWN
from midstream.tui.bottom_line import bottom_line
from midstream.tui.cards import approval_keys, card_rows, key_rows
from midstream.tui.event_lines import answer_line, question_lines
from midstream.tui.live_region import LiveText
from midstream.tui.styled_lines import Row, rows, to_plain
from midstream.views.cells import width_of

STATUS = Status(
    mode="workflow:review",
    enter="⏎ answers #1",
    state="write",
    thinking="ada is thinking",
    model="openai:gpt",
    cost="$0.02",
    busy=True,
    notes=("2 waiting",),
)


def text_of(row: Row) -> str:
    return "".join(text for _, text in row)


def test_the_bottom_line_says_all_there_is_room_for() -> None:
    text = text_of(bottom_line(STATUS, width=120))

    for part in (
        "answers #1",
        "workflow:review",
        "write",
        "ada is thinking",
        "$0.02",
        "openai:gpt",
    ):
        assert part in text
    assert "2 waiting" in text
    assert "Esc stops" in text


@pytest.mark.parametrize("width", [1, 5, 20, 40, 80])
def test_the_bottom_line_fits_and_says_first_what_enter_does(width: int) -> None:
    text = text_of(bottom_line(STATUS, width=width))

    assert width_of(text) <= max(1, width - 1)
    assert text.startswith("⏎ answers #1" if width >= 20 else text[:1])


@pytest.mark.parametrize("permission", ["asks, no sandbox", "auto", "not trusted: only reads"])
@pytest.mark.parametrize("width", [44, 60, 80, 100])
def test_what_happens_unasked_stands_there_whole(width: int, permission: str) -> None:
    status = msgspec.structs.replace(
        STATUS,
        enter="⏎ interrupts architect",
        mode="workflow:code_architecture_review",
        permission=permission,
    )
    text = text_of(bottom_line(status, width=width))

    assert permission in text
    assert width_of(text) <= width - 1
    assert text.startswith("⏎ interrupts arc")
    assert width < 80 or "workflow:" in text


def test_a_hint_takes_the_place_of_the_rest() -> None:
    assert text_of(bottom_line(STATUS, width=80, hint="Ctrl-C again leaves")).strip() == (
        "Ctrl-C again leaves"
    )


@pytest.mark.parametrize("width", range(1, 140))
def test_a_key_and_a_sum_are_shown_whole_or_not_at_all(width: int) -> None:
    status = msgspec.structs.replace(
        STATUS,
        enter="⏎ interrupts 2 branches",
        tab="queues",
        cost="<$0.0001",
        notes=("@name words: to one", "2 waiting"),
    )
    parts = text_of(bottom_line(status, width=width)).split(" · ")

    assert width_of(" · ".join(parts)) <= max(1, width - 1)
    for whole in ("Tab queues", "Esc stops", "<$0.0001", "@name words: to one"):
        cut = [part for part in parts if part[:3] == whole[:3] and part != whole]
        assert not cut, cut


def test_the_state_is_cut_before_the_key_that_stops_it() -> None:
    status = msgspec.structs.replace(STATUS, state="a long name of a state", notes=())
    text = text_of(bottom_line(status, width=60))

    assert "Esc stops" in text
    assert "a long" in text
    assert "a long name of a state" not in text


def test_a_long_name_of_the_mode_is_cut_before_the_key_that_stops() -> None:
    status = msgspec.structs.replace(
        STATUS, mode="workflow:code_architecture_review", tab="queues", permission="asks first"
    )
    text = text_of(bottom_line(status, width=80))

    assert text.startswith("⏎ answers #1 · Tab queues · workflow:code_archi")
    assert " · asks first · " in text
    assert "Esc stops" in text


@pytest.mark.parametrize("width", [20, 40, 80])
def test_keys_of_a_dialog_are_whole_the_way_out_first(width: int) -> None:
    hint = "⏎ takes it · Space picks · ↑ back · Esc keeps it for later"
    parts = text_of(bottom_line(STATUS, width=width, hint=hint)).strip().split(" · ")

    assert set(parts) <= set(hint.split(" · "))
    assert ("Esc keeps it for later" in parts) == (width >= 40)


def test_foreign_words_in_the_status_are_sanitized() -> None:
    status = Status(mode="role:\x1b[2J", enter="a\nb")

    assert "\x1b" not in text_of(bottom_line(status, width=80))
    assert "\n" not in text_of(bottom_line(status, width=80))


def test_a_card_shows_the_marked_question_with_its_choices() -> None:
    card = asked(1, "Which?", choices=("red", "blue"))

    found = [text_of(row) for row in card_rows(card, is_focused=True, height=9, width=40)]

    assert found == ["▸ #1 ada asks", "│ Which?", "│ 1 red", "│ 2 blue"]


def test_a_card_without_room_counts_what_it_leaves_out() -> None:
    card = asked(1, "\n".join(f"line {number}" for number in range(30)), kind="approval")

    found = [text_of(row) for row in card_rows(card, is_focused=True, height=5, width=60)]

    assert len(found) == 5
    assert found[-1] == "│ +27 more lines, in full above"
    assert sum(len(rows(line, 60)) for line in question_lines(card)) == 31


def test_a_card_of_two_rows_says_what_is_asked() -> None:
    card = asked(2, "Which?", choices=("red", "blue"))

    found = [text_of(row) for row in card_rows(card, is_focused=False, height=2, width=40)]

    assert found == ["? #2 ada asks: Which?", "│ +2 more lines, Tab"]


def test_cards_work_on_twenty_columns() -> None:
    card = asked(1, "A question that is longer than twenty columns", choices=("yes", "no"))

    assert all(
        width_of(text_of(row)) <= 20
        for row in card_rows(card, is_focused=True, height=20, width=20)
    )


def test_the_live_region_shows_the_tail_of_each_agent_and_the_running_tools() -> None:
    live = LiveText()
    live.hears(
        "r1", TextDelta(agent="ada", text="\n".join(f"ada {number}" for number in range(50)))
    )
    live.hears("r1", TextDelta(agent="bob", text="bob speaks"))
    call = ToolCalled(call_id="c1", name="search", arguments={"q": "x"}, agent="bob")
    live.outputs.add("r1", "c1", "10 %\n20 %\n")

    found = [text_of(row) for row in live.shown([("r1", call)], height=8, width=40)]

    assert len(found) <= 8
    assert "ada 49" in found
    assert "bob speaks" in found
    assert found[-1] == "⋯ search(x) 20 %"


def test_what_became_scrollback_leaves_the_live_region() -> None:
    live = LiveText()
    live.hears("r1", TextDelta(agent="ada", text="words"))
    live.forget("r1", AgentResponded(agent="ada", text=""))

    assert live.shown([], height=8, width=40) == []


def test_whether_a_budget_is_raised_midstream_asks() -> None:
    asked = Question(id="q1", number=1, kind="question", text="Go on?", about="budget")
    assert to_plain(question_lines(asked)).startswith("? #1 midstream asks")


def test_a_question_that_wants_several_things_shows_them_as_a_form() -> None:
    schema: dict[str, Json] = {
        "properties": {"kind": {"enum": ["bug", "feature"]}, "note": {"type": "string"}},
        "required": ["kind"],
    }
    question = Question(id="q1", number=1, kind="question", text="What is it?", schema=schema)

    assert to_plain(question_lines(question)) == (
        "? #1 the workflow asks\n│ What is it?\n│ kind  bug | feature\n"
        "│ note  text  (may be left out)\n│ Write kind=..., or JSON.\n"
    )


def test_a_question_that_wants_a_number_says_so() -> None:
    question = Question(
        id="q1", number=1, kind="question", text="How many?", schema={"type": "integer"}
    )

    assert to_plain(question_lines(question)).endswith("│ as JSON: integer\n")


def test_a_strangers_form_stays_behind_its_bar() -> None:
    properties = {f"\n› /exit {number}" + "x" * 60: {"type": "\x1b[2J"} for number in range(40)}
    question = Question(
        id="q1", number=1, kind="question", text="?", schema={"properties": properties}
    )

    shown = to_plain(question_lines(question)).splitlines()

    assert len(shown) < 60
    assert all(line[:2] in ("? ", "│ ") for line in shown)
    assert "\x1b" not in "".join(shown)


def test_the_key_for_the_run_names_all_that_it_grants() -> None:
    asks = (f"exec: {'x' * 100}", "net: \\*", f"{SHOWN}1")
    keys = approval_keys(
        Question(id="q", number=1, kind="approval", text="run", asks=asks, command="x")
    )

    assert "r for this run (net: any host; exec: xxx" in keys
    assert SHOWN not in keys


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_key_is_torn_from_what_it_does_where_there_is_room(width: int) -> None:
    keys = "y once · r for this run · n no · w no, and say why · e edit"
    found = ["".join(text for _, text in row)[2:] for row in key_rows(keys, width)]

    assert all(len(line) + 2 <= width for line in found)
    assert " · ".join(found).split(" · ") == keys.split(" · ") or width == 20
    assert len(found) == {20: 5, 40: 2, 80: 1, 200: 1}[width]


def test_an_approval_shows_line_ends_that_look_like_none() -> None:
    question = Question(id="q", number=1, kind="approval", text="write_file\n-one\n+one\r\n+two")

    assert "│ -one\n│ +one␍\n│ +two\n" in to_plain(question_lines(question))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "execute_terminal\n$ make test\nin /w\nwith no sandbox",
            "execute_terminal $ make test  yes",
        ),
        ("write_file\nA note.\n--- a.txt\n+++ b.txt\n+x", "write_file b.txt  yes"),
        ("read_files\nf.txt", "read_files f.txt  yes"),
        ("thing\nwith\nwords", "thing (+2 more lines)  yes"),
        ("thing", "thing  yes"),
    ],
)
def test_a_decision_names_what_was_decided_on(text: str, said: str) -> None:
    question = QuestionAsked(question_id="q", number=1, kind="approval", text=text)

    assert to_plain([answer_line(question, "q", "yes")]) == f"✓ #1 {said}\n"


# --- approvals of changes -------------------------------------------------------------------------

DIFF = "--- calc.py\n+++ calc.py\n@@ -1,2 +1,3 @@\n-a\n+b\n+c\n d"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"edit_file\n{DIFF}",
            "? #1 ada wants to change calc.py  +2 -1\n│ @@ -1,2 +1,3 @@\n│ -a\n│ +b\n│ +c\n│  d\n",
        ),
        (
            "write_file\nIt runs later.\n--- /dev/null\n+++ new.py\n@@ -0,0 +1 @@\n+x",
            "? #1 ada wants to create new.py  +1 -0\n│ It runs later.\n│ @@ -0,0 +1 @@\n│ +x\n",
        ),
        (
            f"edit_file\n{DIFF}\n[+9 more lines; SHA-256 before: 1, after: 2]",
            "? #1 ada wants to change calc.py\n│ @@ -1,2 +1,3 @@\n│ -a\n│ +b\n│ +c\n│  d\n"
            "│ [+9 more lines; SHA-256 before: 1, after: 2]\n",
        ),
        (f"other\n{DIFF[:23]}", "? #1 ada wants to run\n│ other\n│ --- calc.py\n│ +++ calc.py\n"),
        (
            f"execute_terminal\n$ cat .\n{DIFF[:23]}",
            "? #1 ada wants to run\n│ execute_terminal\n│ $ cat .\n│ --- calc.py\n│ +++ calc.py\n",
        ),
    ],
)
def test_an_approval_of_a_change_says_it_in_its_first_line(text: str, told: str) -> None:
    question = Question(id="q1", number=1, kind="approval", text=text, agent="ada", call_id="c")

    assert to_plain(question_lines(question)) == told
