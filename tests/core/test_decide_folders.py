"""The AGENTS.md of a folder joins a conversation once, with the result of a call that works there."""

from typing import Any

from decide_kit import ROLES, Step, call, define, flow, of, replies, state, tell
from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.codec import decode_run, encode_run
from midstream.core.events import CompactionBegan, ConversationCompacted
from midstream.core.fold.apply import apply
from midstream.core.inputs import ToolFinished
from midstream.core.pending import call_key
from midstream.core.run import Run
from midstream.views.context_window import filling_of

BASE = define(flow(state("start", "dude")))
WORK = replace(BASE, roles={**ROLES, "dude": replace(ROLES["dude"], agentsFile=True)})
PLAIN = BASE
SUB = "sub/AGENTS.md"


def found(call_id: str, **below: Any) -> Step:
    """A call ends that worked where these files are."""
    files = {f"{name}/AGENTS.md": text for name, text in below.items()}
    return lambda run: ToolFinished(
        key=call_key(run, call_id), outcome="completed", text="ok", below=files
    )


def results(run: Run) -> list[str]:
    return [result.text for message in run.contexts["talk"] for result in message.results]


def test_it_joins_with_the_first_result_and_no_other() -> None:
    run, facts = tell(
        WORK,
        replies("", call("look"), call("look")),
        found("call_1", sub="Use tabs."),
        found("call_2", sub="Use tabs."),
        replies("", call("look")),
        found("call_3", sub="Use tabs.", other="Be brief."),
    )

    assert results(run) == ["ok\n\nUse tabs.", "ok", "ok\n\nBe brief."]
    assert run.below == {"talk": {SUB: 9, "other/AGENTS.md": 9}}
    assert [fact.below for fact in of(facts, e.ToolReturned)] == [
        {SUB: 9},
        {},
        {"other/AGENTS.md": 9},
    ]
    part = next(p for p in filling_of(run, "dude").parts if p.name == "AGENTS.md of folders")
    assert part.things == f"{SUB}, other/AGENTS.md"


def test_one_that_is_not_trusted_is_told_the_person_once_and_joins_when_it_is() -> None:
    run, facts = tell(
        WORK,
        replies("", call("look"), call("look")),
        found("call_1", sub=""),
        found("call_2", sub=""),
        replies("", call("look")),
        found("call_3", sub="Use tabs."),
    )

    told = [fact.text for fact in of(facts, e.WorkflowOutput)]
    assert told == [
        f"{SUB} is not read to models: it is not trusted as it stands. /trust shows it."
    ]
    assert results(run) == ["ok", "ok", "ok\n\nUse tabs."]


def test_a_role_that_does_not_ask_for_such_words_gets_none() -> None:
    run, _ = tell(PLAIN, replies("", call("look")), found("call_1", sub="Use tabs."))

    assert results(run) == ["ok"]
    assert run.below == {}


def test_after_a_summary_it_may_join_again() -> None:
    run, facts = tell(WORK, replies("", call("look")), found("call_1", sub="Use tabs."))
    again = Run(id="r")
    for fact in facts:
        again = apply(again, fact)
        assert decode_run(*encode_run(again)) == again
    assert again == run

    run = apply(run, CompactionBegan(agent="dude", context="talk", count=1))
    run = apply(
        run,
        ConversationCompacted(
            agent="dude", context="talk", count=1, summary="s", tokens_before=9, tokens_after=1
        ),
    )
    assert run.below == {}
