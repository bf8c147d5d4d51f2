"""Which turns words began, and the fact to go back to."""

from decide_kit import TOOLS, Step, asks, call, done, replies, says, tell

from midstream.core.events import AnyFact, InputDisposed, InputReceived
from midstream.core.notices import Envelope
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.views.listing import Summary, summarised
from midstream.views.turns import history_lines, history_of, past_of, turns_of

CHAT = chat_definition("dude", Role(), TOOLS)


def facts(*events: AnyFact) -> list[Envelope]:
    return [Envelope(run="r", at=1.0, event=event, seq=seq) for seq, event in enumerate(events, 1)]


def received(id: str, *, to: str = "") -> AnyFact:
    return InputReceived(input_id=id, text=f"words {id}", source="user", handling="queue", to=to)


def disposed(id: str, how: str = "delivered") -> AnyFact:
    return InputDisposed(input_id=id, disposition=how)  # type: ignore[arg-type]


def test_words_that_were_refused_taken_back_or_wait_began_nothing() -> None:
    found = turns_of(
        "r",
        facts(
            received("a"),
            disposed("a"),
            received("b"),
            disposed("b", "withdrawn"),
            received("c"),
            disposed("c", "rejected"),
            received("d", to="tests"),
            received("e"),
            disposed("d"),
        ),
    )

    assert [(turn.at, turn.words) for turn in found] == [(0, "words a"), (6, "@tests words d")]
    assert {turn.run for turn in found} == {"r"}


def test_words_that_took_effect_together_are_one_turn() -> None:
    found = turns_of("r", facts(received("b"), received("a"), disposed("a"), disposed("b")))

    assert [(turn.at, turn.words) for turn in found] == [(0, "words b\nwords a")]


def test_a_run_without_words_has_none() -> None:
    assert turns_of("r", []) == ()


# --- what counts as a turn --------------------------------------------------------------------------


def counts(*steps: Step) -> tuple[int, int, int]:
    """Return how many turns a listing, /history and the last turns of --continue count."""
    run, told = tell(CHAT, *steps, input=None)
    enveloped = facts(*told)
    summary = Summary()
    for envelope in enveloped:
        summary = summarised(summary, envelope)
    lines = history_lines(history_of(enveloped), width=100, most=20, now=0)
    return summary.turns, int(lines[-1].split()[0]), past_of(run, most=3).count


def test_an_answer_to_a_question_is_no_turn_of_its_own_anywhere() -> None:
    answered = (says("one", id="a"), replies("", asks("Which?")), says("that", "q2", id="b"))
    assert counts(*answered, replies("Done."), says("two", id="c"), replies("Yes.")) == (2, 2, 2)


def test_words_that_join_a_turn_under_way_begin_none_anywhere() -> None:
    joined = (
        says("one", id="a"),
        replies("", call("look")),
        says("faster", id="b", policy="steer"),
        done("call_1"),
        replies("Done."),
    )
    assert counts(*joined, says("two", id="c"), replies("Yes.")) == (2, 2, 2)


def test_words_that_interrupt_begin_a_turn_everywhere() -> None:
    cut = (says("one", id="a"), says("no, two", id="b", shown="You are"), replies("Yes."))
    assert counts(*cut) == (2, 2, 2)
