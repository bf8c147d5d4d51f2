"""Lists and forms under the keys: which key counts, and what becomes of what was typed."""

import msgspec
from fake_session import FORM, SEVERAL, asked

from midstream.core.question import Question
from midstream.tui.answering import Answering

LIST = asked(1, "Which?", choices=("red", "blue"))
FILL = msgspec.structs.replace(asked(3, "What?"), schema=FORM)
MANY = msgspec.structs.replace(asked(4, "Which?"), schema=SEVERAL)


def drawn(*questions: Question, at: float = 0.0) -> Answering:
    answering = Answering()
    answering.keep_to(questions)
    answering.on_screen.frame({question.id for question in questions}, now=at)
    return answering


def filled(answering: Answering, *lines: str) -> Answering:
    answering.enter(FILL, "", now=1.0)
    for line in lines:
        answering.enter(None, line, now=2.0)
    return answering


def test_an_arrow_marks_nothing_on_a_card_that_has_just_come() -> None:
    answering = drawn(LIST, at=1.0)

    assert answering.arrow(LIST, "", 1, now=1.3) is None
    assert answering.arrow(LIST, "", 1, now=1.5) is not None
    assert answering.marks(LIST)


def test_an_arrow_in_a_line_is_the_lines() -> None:
    assert drawn(LIST).arrow(LIST, "half", 1, now=1.0) is None


def test_enter_answers_with_the_marked_choice() -> None:
    answering = drawn(LIST)
    answering.arrow(LIST, "", -1, now=1.0)

    step = answering.enter(LIST, "", now=1.0)

    assert step is not None
    assert step.answer is not None
    assert (step.answer.question, step.answer.text, step.answer.echo) == ("q1", "blue", "#1 blue")


def test_enter_with_nothing_marked_and_enter_with_a_line_are_not_taken() -> None:
    answering = drawn(LIST)

    assert answering.enter(LIST, "", now=1.0) is None
    answering.arrow(LIST, "", 1, now=1.0)
    assert answering.enter(LIST, "green", now=1.0) is None


def test_a_mark_is_gone_with_its_question() -> None:
    answering = drawn(LIST)
    answering.arrow(LIST, "", 1, now=1.0)
    answering.keep_to([])

    assert not answering.marks(LIST)


def test_several_are_answered_as_json() -> None:
    answering = drawn(MANY)
    for _ in range(2):
        answering.arrow(MANY, "", 1, now=1.0)
        answering.pick(MANY)

    step = answering.enter(MANY, "", now=1.0)

    assert step is not None
    assert step.answer is not None
    assert step.answer.text == '["tests","docs"]'


def test_a_form_opens_on_a_fresh_enter_only() -> None:
    answering = drawn(FILL, at=1.0)

    assert answering.enter(FILL, "", now=1.2) is None
    assert answering.enter(FILL, "", now=2.0) is not None
    assert answering.filling == "q3"


def test_a_form_that_is_left_keeps_what_it_holds_and_what_was_half_typed() -> None:
    answering = filled(drawn(FILL), "bug")

    assert answering.leave("1").line == ""
    assert answering.filling == ""
    step = answering.enter(FILL, "", now=3.0)
    assert step is not None
    assert step.line == "1"
    assert answering.form is not None
    assert answering.form.values == {"kind": "bug"}


def test_the_whole_is_sent_after_a_last_look_and_not_by_a_key_that_is_held_down() -> None:
    answering = filled(drawn(FILL), "bug", "12", "a note")

    held = answering.enter(None, "", now=2.1)
    step = answering.enter(None, "", now=2.5)

    assert held is not None
    assert held.answer is None
    assert step is not None
    assert step.answer is not None
    assert msgspec.json.decode(step.answer.text) == {"kind": "bug", "lines": 12, "note": "a note"}
    assert step.answer.echo == "#3 kind=bug lines=12 note=a note"


def test_an_answer_is_sent_once() -> None:
    answering = drawn(LIST)
    answering.arrow(LIST, "", 1, now=1.0)
    answering.enter(LIST, "", now=1.0)

    assert answering.enter(LIST, "", now=1.1) is None


def test_why_the_whole_does_not_fit_stands_in_the_form() -> None:
    answering = filled(drawn(FILL), "bug", "12", "")
    answering.enter(None, "", now=3.0)

    assert answering.sent("q3", "at $.lines: too many")
    assert answering.form is not None
    assert answering.form.problem == "at $.lines: too many"
    assert answering.filling == "q3"


def test_a_form_whose_question_closes_keeps_the_line_that_is_typed() -> None:
    answering = filled(drawn(FILL), "bug")
    answering.keep_to([])

    assert answering.is_closed
    step = answering.enter(None, "half a wor", now=3.0)

    assert step is not None
    assert (step.line, step.answer) == (None, None)
    assert "closed" in step.says
    assert answering.filling == ""


def test_up_in_a_form_goes_back_and_down_goes_on() -> None:
    answering = filled(drawn(FILL), "bug", "12")

    back = answering.arrow(None, "dra", -1, now=3.0)
    assert back is not None
    assert back.line == "12"
    forth = answering.arrow(None, "12", 1, now=3.0)
    assert forth is not None
    assert forth.line == "dra"


def test_in_a_field_with_a_list_arrows_mark_and_up_from_the_first_goes_back() -> None:
    answering = filled(drawn(FILL))
    answering.arrow(None, "", 1, now=1.0)
    found = answering.field_list()

    assert found is not None
    assert found.label == "bug"
    answering.enter(None, "", now=1.1)
    assert answering.form is not None
    assert answering.form.values == {"kind": "bug"}


def test_up_from_the_first_choice_goes_back_to_the_field_before() -> None:
    schema = {"properties": {"one": {"type": "string"}, "two": {"enum": ["a", "b"]}}}
    question = msgspec.structs.replace(FILL, schema=schema)
    answering = drawn(question)
    answering.enter(question, "", now=1.0)
    answering.enter(None, "words", now=1.0)
    for step in (1, 1, -1):
        answering.arrow(None, "", step, now=1.0)
    assert answering.form is not None
    assert answering.form.at == 1

    step_back = answering.arrow(None, "", -1, now=1.0)

    assert step_back is not None
    assert (answering.form.at, step_back.line) == (0, "words")
