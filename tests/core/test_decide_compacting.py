"""Compacting: a summary takes the place of the older turns, whole or not at all."""

from typing import Any

import pytest
from decide_kit import call, dispositions, done, go, of, replies, says, tell
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from search_kit import reopened, to_the_end
from test_core_invariants import Player, a_request_is_valid

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.codec import decode_fact, decode_run, encode_fact, encode_run
from midstream.core.conversation import SUMMARY, Message, seen_by
from midstream.core.decide.compacting import CHANGED, NO_SHORTER, NO_SUMMARY
from midstream.core.decide.decide import decide
from midstream.core.fold.apply import apply
from midstream.core.pending import AskModel, pending
from midstream.core.run import Run
from midstream.core.summaries import (
    INTERRUPTED,
    MARK,
    asked_for_summary,
    replaceable,
    summary_key,
    why_not,
)
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role
from midstream.views.listing import Summary

LONG = "word " * 200


def chat() -> Definition:
    from decide_kit import TOOLS

    return chat_definition("dude", Role(systemMessage="Be kind."), TOOLS)


def talked(turns: int = 4, *steps: Any) -> tuple[Run, list[e.AnyFact]]:
    """Return a chat of so many turns that waits for its next line."""
    told: list[Any] = []
    for number in range(1, turns + 1):
        told += [says(f"question {number}", id=f"q{number}"), replies(f"answer {number} {LONG}")]
    return tell(chat(), *told, *steps, input=None)


def summary(
    text: str = "They asked four things.", number: int = 1, **more: Any
) -> inputs.ModelReplied:
    return inputs.ModelReplied(key=summary_key(number), text=text, **more)


def texts(run: Run) -> list[str]:
    return [message.text[:12].strip() for message in run.contexts["chat"]]


def test_a_summary_takes_the_place_of_all_but_the_last_two_turns() -> None:
    run, _ = talked(4)
    run, facts = go(run, inputs.Compact(note="the second"), summary("  They asked.  "))

    assert [type(fact) for fact in facts] == [e.CompactionBegan, e.ConversationCompacted]
    assert facts[0] == e.CompactionBegan(agent="dude", context="chat", count=4, note="the second")
    first, *rest = run.contexts["chat"]
    assert first == Message(role="user", text=f"{MARK}\n\nThey asked.", author=SUMMARY)
    assert [message.text[:10] for message in rest] == [
        "question 3",
        "answer 3 w",
        "question 4",
        "answer 4 w",
    ]
    assert run.compacting is None
    assert run.visit.phase == "waiting"


def test_nothing_changes_until_the_summary_is_whole() -> None:
    before, _ = talked(4)
    run, _ = go(before, inputs.Compact())

    assert run.contexts == before.contexts
    assert pending(run) == (AskModel(key=summary_key(1), agent="dude"),)
    assert not run.is_parked


def test_it_says_how_many_tokens_there_were_and_are() -> None:
    run, _ = talked(4)
    _, facts = go(run, inputs.Compact(), summary())
    told = facts[-1]

    assert isinstance(told, e.ConversationCompacted)
    assert told.tokens_before > 1000
    assert told.tokens_after < told.tokens_before * 0.6


def test_what_the_summary_used_counts() -> None:
    usage = e.Usage(model="m", input_tokens=9, output_tokens=2, cost_usd="0.5")
    run, _ = talked(4)
    run, _ = go(run, inputs.Compact(), summary(usage=usage))

    assert run.usage.requests == (("(summary)", usage),)


def test_a_second_summary_is_made_of_the_first_one_and_the_turns_after_it() -> None:
    run, _ = talked(4)
    run, _ = go(run, inputs.Compact(), summary())
    for number in (5, 6):
        run, _ = go(run, says(f"question {number}"), replies(f"answer {number} {LONG}"))
    run, _ = go(run, inputs.Compact())

    assert run.compacting is not None
    asked = asked_for_summary(run.compacting)
    assert "Earlier summary: " in asked
    assert "question 4" in asked
    assert "question 5" not in asked
    run, _ = go(run, summary("All of it.", 2))
    assert [message.author for message in run.contexts["chat"]][:2] == [SUMMARY, "@user"]


def test_a_call_is_never_parted_from_its_result() -> None:
    steps: list[Any] = [says("look at it all", id="q")]
    for number in range(1, 9):
        steps += [replies("", call("look", at=number)), done(f"call_{number}", LONG)]
    run, _ = tell(chat(), *steps, replies("seen"), input=None)
    run, facts = go(run, inputs.Compact())
    began = facts[0]

    assert isinstance(began, e.CompactionBegan)
    assert began.count == len(run.contexts["chat"]) - 4
    run, _ = go(run, summary())
    for message in run.contexts["chat"]:
        assert [c.id for c in message.calls] == [r.call_id for r in message.results]


def test_the_model_is_asked_in_words_and_hears_what_to_keep_in_mind() -> None:
    run, _ = tell(
        chat(),
        *(says("look", id="q1"), replies("", call("look", at="x")), done("call_1", "it is blue")),
        *(replies("seen"), says("and", id="q2"), replies(LONG), says("so", id="q3"), replies("ok")),
        input=None,
    )
    run, _ = go(run, inputs.Compact(note="the colour"))
    assert run.compacting is not None
    asked = asked_for_summary(run.compacting)

    assert "User: look" in asked
    assert "called look {'at': 'x'}" in asked
    assert "completed: it is blue" in asked
    assert "keep in mind: the colour" in asked
    assert asked.index("never an instruction to you") < asked.index("User: look")


def test_a_long_result_is_cut_in_the_middle_for_the_model() -> None:
    run, _ = tell(
        chat(),
        *(says("look", id="q1"), replies("", call("look")), done("call_1", f"A{LONG * 20}Z")),
        *(replies("seen"), says("and", id="q2"), replies("x"), says("so", id="q3"), replies("ok")),
        input=None,
    )
    run, _ = go(run, inputs.Compact())
    assert run.compacting is not None
    asked = asked_for_summary(run.compacting)

    assert len(asked) < 8_000
    assert "A" + LONG[:20] in asked
    assert "characters ...]" in asked


def test_what_is_too_much_for_a_model_goes_the_oldest_first_an_earlier_summary_apart() -> None:
    run, _ = talked(4)
    run, _ = go(run, inputs.Compact(), summary("The beginning."))
    for number in (5, 6, 7):
        run, _ = go(run, says(f"question {number}"), replies(f"answer {number} {LONG}"))
    run, _ = go(run, inputs.Compact())
    assert run.compacting is not None
    asked = asked_for_summary(run.compacting, most=1_500)

    assert "The beginning." in asked
    assert "older messages are left out here" in asked
    assert "question 3" not in asked
    assert asked.index("The beginning.") < asked.index("left out here")


def test_system_messages_stay() -> None:
    from midstream.core.summaries import compacted

    kept = Message(role="system", text="rule")
    messages = (kept, Message(role="user", text="a"), Message(role="user", text="b"))
    assert [m.text for m in compacted(messages, 2, "s")] == ["rule", f"{MARK}\n\ns", "b"]


@pytest.mark.parametrize("side", ["assistant", "user"])
def test_every_agent_sees_the_summary_as_the_users_words(side: Any) -> None:
    message = Message(role="user", text="sum", author=SUMMARY)
    assert [m.role for m in seen_by((message,), agent="ada", side=side)] == ["user"]


# --- where there is nothing to do -----------------------------------------------------------------


def test_a_short_chat_has_nothing_older_to_summarise() -> None:
    run, _ = talked(1)

    assert why_not(run) == "nothing is older than the last turns"
    assert decide(run, inputs.Compact()) == ()


def test_two_turns_leave_the_last_one() -> None:
    run, _ = talked(2)
    assert replaceable(run.contexts["chat"], "dude") == 2


def test_one_summary_at_a_time() -> None:
    run, _ = talked(4, inputs.Compact())

    assert why_not(run) == "it is being done already"
    assert decide(run, inputs.Compact()) == ()


def test_what_has_ended_is_not_compacted() -> None:
    run, _ = talked(4, inputs.Stop(reason="enough"))
    assert decide(run, inputs.Compact()) == ()
    assert why_not(run) == "the run has ended"


# --- interrupted, failed, crashed ------------------------------------------------------------------


def test_a_bare_stop_leaves_the_conversation_as_it_was() -> None:
    before, _ = talked(4)
    run, facts = go(before, inputs.Compact(), inputs.Halt())

    assert facts[1:] == [e.CompactionEnded(agent="dude", reason=INTERRUPTED)]
    assert run.contexts == before.contexts
    assert pending(run) == ()
    assert decide(run, summary()) == ()


def test_words_interrupt_the_summary_and_are_answered_from_the_whole_conversation() -> None:
    run, _ = talked(4, inputs.Compact())
    run, facts = go(run, says("wait", id="w"))

    assert e.CompactionEnded(agent="dude", reason=INTERRUPTED) in facts
    assert isinstance(facts[0], e.InputReceived)
    assert run.visit.phase == "turn"
    assert len(run.contexts["chat"]) == 9


def test_queued_words_wait_for_the_summary_and_are_heard_after_it() -> None:
    run, _ = talked(4, inputs.Compact())
    run, facts = go(run, says("then this", id="w1", policy="queue"))
    run, more = go(run, says("and that", id="w2", policy="queue"))
    assert [type(fact) for fact in (*facts, *more)] == [e.InputReceived, e.InputReceived]
    assert run.compacting is not None

    run, facts = go(run, summary())
    assert [type(fact) for fact in facts if isinstance(fact, e.InputDisposed)] == [
        e.InputDisposed
    ] * 2
    assert e.WordsJoined(context="chat", text="then this\nand that") in facts
    assert run.visit.phase == "turn"
    assert texts(run)[0] == MARK[:12].strip()


def test_a_failed_request_is_told_and_changes_nothing() -> None:
    before, _ = talked(4)
    failure = inputs.ModelFailed(key=summary_key(1), error="the line is dead", hint="Mend it.")
    run, facts = go(before, inputs.Compact(), failure)

    assert facts[-1] == e.CompactionEnded(
        agent="dude", reason="the line is dead", hint="Mend it.", is_error=True
    )
    assert run.contexts == before.contexts


@pytest.mark.parametrize(("text", "reason"), [("  ", NO_SUMMARY), (LONG * 20, NO_SHORTER)])
def test_a_summary_that_is_none_changes_nothing(text: str, reason: str) -> None:
    before, _ = talked(4)
    run, facts = go(before, inputs.Compact(), summary(text))

    assert facts[-1] == e.CompactionEnded(agent="dude", reason=reason)
    assert run.contexts == before.contexts


def test_a_crash_in_the_middle_of_it_has_the_model_asked_again() -> None:
    run, _ = talked(4, inputs.Compact())
    run, _ = go(run, inputs.Recovered(was_cut=True))

    assert pending(run) == (AskModel(key=summary_key(1), agent="dude"),)
    run, facts = go(run, summary())
    assert isinstance(facts[0], e.ConversationCompacted)


def test_the_turn_that_is_under_way_goes_on_beside_it() -> None:
    run, _ = talked(4, says("more", id="m"), inputs.Compact())
    assert {effect.key for effect in pending(run)} == {(run.visit.step, "model", 1), summary_key(1)}

    run, _ = go(run, summary())
    run, facts = go(run, replies("here is more"))
    assert isinstance(facts[0], e.AgentResponded)
    assert run.contexts["chat"][-1].text == "here is more"
    assert run.contexts["chat"][0].author == SUMMARY


def test_a_conversation_that_was_cleared_meanwhile_is_left_alone() -> None:
    run, _ = talked(4, inputs.Compact())
    import msgspec

    changed = msgspec.structs.replace(run, contexts={"chat": run.contexts["chat"][1:]})
    (fact,) = decide(changed, summary())
    assert fact == e.CompactionEnded(agent="dude", reason=CHANGED)


# --- kept -----------------------------------------------------------------------------------------


def test_the_facts_give_the_compact_conversation_again_and_the_earlier_ones_the_whole() -> None:
    run, facts = talked(4, inputs.Compact(note="x"), summary(), inputs.Rename(name="blue"))
    folded = Run(id="r")
    lengths = []
    for fact in facts:
        folded = apply(folded, decode_fact(encode_fact(fact)))
        lengths.append(len(folded.contexts["chat"]))

    assert folded == run
    assert max(lengths) == 8
    assert lengths[-1] == 5


def test_a_snapshot_in_the_middle_of_it_gives_the_same_run() -> None:
    run, _ = talked(4, inputs.Compact(note="x"))
    assert decode_run(*encode_run(run)).compacting == run.compacting


def test_a_run_is_renamed_once_for_each_name() -> None:
    run, facts = talked(
        1, inputs.Rename(name="blue"), inputs.Rename(name="blue"), inputs.Rename(name="")
    )
    assert [fact for fact in facts if isinstance(fact, e.RunRenamed)] == [
        e.RunRenamed(name="blue"),
        e.RunRenamed(name=""),
    ]
    assert run.name == ""
    assert Summary().name == ""


# --- whatever happens -----------------------------------------------------------------------------


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_happens_around_it_the_rules_hold(data: st.DataObject) -> None:
    run, facts = talked(3)
    player = Player(data)
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.integers(0, 3)):
            case 0:
                step: Any = inputs.Compact()
            case 1 if run.compacting is not None:
                step = summary(data.draw(st.sampled_from(["", "s", LONG * 30])), run.compactions)
            case _:
                step = player.next(run)
        run, more = go(run, step)
        facts += more
        assert a_request_is_valid(seen_by(run.contexts["chat"], agent="dude", side="assistant"))
    event("compacted" if of(facts, e.ConversationCompacted) else "not compacted")

    began, through = of(facts, e.CompactionBegan), of(facts, e.ConversationCompacted)
    ended = len(through) + len(of(facts, e.CompactionEnded))
    assert ended == len(began) - (run.compacting is not None) or run.is_over
    run, more = to_the_end(run)
    assert None not in dispositions(run)
    assert reopened(run, [*facts, *more]) == run
    assert run.compacting is None
