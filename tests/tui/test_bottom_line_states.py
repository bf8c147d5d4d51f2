"""What the bottom line says in each state: ⏎ stands there only where Enter does something."""

import msgspec
import pytest
from fake_session import FakeSession, asked

from midstream.app.ui import Status
from midstream.core.question import Question
from midstream.tui.cards import OF_A_CALL
from midstream.tui.dialog import Dialog, Mark, Writing
from midstream.tui.editor import Editor
from midstream.tui.frame_rows import Screen, bottom_for
from midstream.tui.line_history import history_in

CHAT = Status(mode="role:dude", enter="sends to dude")
BUSY = Status(mode="role:dude", enter="interrupts dude", busy=True, tab="queues")
FLOW = Status(mode="workflow:review", enter="interrupts critic", busy=True)
FORM = msgspec.structs.replace(
    asked(1, "What?"), schema={"type": "object", "properties": {"a": {"type": "string"}}}
)
APPROVAL = asked(1, "run?", kind="approval")

STATES: list[tuple[str, Status, tuple[Question, ...], str, dict[str, object], str]] = [
    (
        "nothing is loaded yet",
        Status(mode="role:dude", enter="goes to dude once everything is loaded"),
        (),
        "",
        {},
        "a line goes to dude once everything is loaded · chat",
    ),
    ("a chat waits", CHAT, (), "", {}, "chat with dude"),
    ("a chat waits, with exit", CHAT, (), "exit", {}, "⏎ leaves · chat with dude"),
    ("a chat waits, with text", CHAT, (), "hi", {}, "⏎ sends to dude · chat"),
    ("a chat waits, with a command", CHAT, (), "/help", {}, "⏎ runs the command · chat with dude"),
    (
        "a chat is at work",
        BUSY,
        (),
        "",
        {},
        "a line interrupts dude · Tab queues · chat · Esc stops",
    ),
    (
        "a chat is at work, with text",
        BUSY,
        (),
        "hi",
        {},
        "⏎ interrupts dude · Tab queues · chat · Esc stops",
    ),
    (
        "a workflow waits for words",
        Status(mode="workflow:review", enter="sends to critic"),
        (),
        "",
        {},
        "a line goes to critic · workflow:review",
    ),
    (
        "a workflow is at work",
        FLOW,
        (),
        "",
        {},
        "a line interrupts critic · workflow:review · Esc stops",
    ),
    (
        "it was stopped",
        Status(mode="role:dude", enter="resumes", on_empty="resumes"),
        (),
        "",
        {},
        "⏎ resumes · chat with dude",
    ),
    (
        "it is suspended",
        Status(mode="workflow:review", enter="resumes it", on_empty="resumes"),
        (),
        "",
        {},
        "⏎ resumes · workflow:review",
    ),
    (
        "nothing is taken",
        Status(mode="workflow:review", enter="is not accepted now"),
        (),
        "",
        {},
        "a line is not accepted now · workflow:review",
    ),
    (
        "a chat is chosen",
        Status(mode="role:dude", enter="chooses a chat"),
        (),
        "",
        {},
        "a line chooses a chat · chat with dude",
    ),
    (
        "a question is open",
        FLOW,
        (asked(1, "What?"),),
        "",
        {},
        "a line answers #1 · workflow:review · Esc stops",
    ),
    (
        "a question is answered",
        FLOW,
        (asked(1, "What?"),),
        "x",
        {},
        "⏎ answers #1 · workflow:review · Esc stops",
    ),
    ("a form is open", FLOW, (FORM,), "", {}, "⏎ fills in #1 · workflow:review · Esc stops"),
    (
        "an approval is open",
        BUSY,
        (APPROVAL,),
        "",
        {},
        "y yes, n no, a line interrupts dude · Tab queues · chat · Esc stops",
    ),
    *(
        (
            f"{choice.letter} of an approval is marked",
            BUSY,
            (APPROVAL,),
            "",
            dict[str, object](mark=Mark(question="q1", choice=choice.letter)),
            f"⏎ {choice.enter} · Esc unmarks · Tab queues · chat with dude",
        )
        for choice in OF_A_CALL[:-1]
    ),
    (
        "a choice of another approval was marked",
        BUSY,
        (APPROVAL,),
        "",
        {"mark": Mark(question="q0", choice="y")},
        "y yes, n no, a line interrupts dude · Tab queues · chat · Esc stops",
    ),
    (
        "an approval is open, with text",
        BUSY,
        (APPROVAL,),
        "hi",
        {},
        "⏎ interrupts dude · Tab queues · chat · Esc stops",
    ),
    (
        "a refusal is explained",
        BUSY,
        (APPROVAL,),
        "",
        {"over": Writing("q1", "note")},
        "⏎ refuses with this note · Esc goes back",
    ),
    (
        "a command is changed",
        BUSY,
        (APPROVAL,),
        "",
        {"over": Writing("q1", "command")},
        "type a command · Esc goes back",
    ),
    (
        "a command has been changed",
        BUSY,
        (APPROVAL,),
        "ls",
        {"over": Writing("q1", "command")},
        "⏎ runs this instead, once · Esc goes back",
    ),
    (
        "the workflow ended while a line was typed",
        CHAT,
        (),
        "hi",
        {"outlived": "review"},
        "⏎ asks once more: review has ended · chat with dude",
    ),
    (
        "the workflow ended, the line is empty again",
        CHAT,
        (),
        "",
        {"outlived": "review"},
        "chat with dude",
    ),
    ("who leaves is asked again", CHAT, (), "", {"leave_offered": True}, "Ctrl-C again leaves"),
]


@pytest.mark.parametrize(
    ("status", "questions", "text", "dialog", "says"),
    [row[1:] for row in STATES],
    ids=[row[0] for row in STATES],
)
def test_the_bottom_line_is_true_in_every_state(
    status: Status,
    questions: tuple[Question, ...],
    text: str,
    dialog: dict[str, object],
    says: str,
) -> None:
    drawn = frozenset(question.id for question in questions)
    focus = questions[0].id if questions else ""
    session = FakeSession()
    session.questions = [*questions]
    screen = Screen(
        status=status,
        questions=questions,
        route=lambda text, seen: session.route(text, seen=seen, focused=focus),
        above=[],
        drawn=drawn,
        width=100,
    )
    editor = Editor(
        history_in(None, lambda text: None),
        on_screen=lambda: drawn,
        completions=lambda before: (),
    )
    editor.buffer.text = text
    made = Dialog(**{"focus": focus, **dialog})  # type: ignore[arg-type]

    row = bottom_for(screen, made, editor)

    assert "".join(words for _, words in row).strip() == says
