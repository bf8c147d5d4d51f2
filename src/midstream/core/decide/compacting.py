"""Compacting: the older turns of a conversation give way to a summary of them.

A model in the same role, without tools, is asked for the summary while everything else goes on as it
would. Nothing changes before it is there whole: then one fact puts it in the place of the messages
it was made of. What keeps is every system message and the last turns, and since a message holds its
calls with their results, no place to cut falls between the two. The journal keeps all of it; who goes
back to an earlier fact has the whole conversation again.

Words that interrupt, a bare stop and the end of the run end it, and so does anything but growing
that happens to the conversation meanwhile (a handler cleared it, its oldest were trimmed).
"""

from midstream.core import events as e
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import join_words
from midstream.core.inputs import Compact, ModelFailed, ModelReplied, Shown
from midstream.core.run import Compacting
from midstream.core.summaries import (
    INTERRUPTED,
    compacted,
    summary_key,
    tokens_of,
    wanted,
    why_not,
)
from midstream.core.trimming import trimming

NO_SUMMARY = "the model gave no summary"
NO_SHORTER = "the summary is no shorter than what it would replace"
CHANGED = "the conversation changed meanwhile"


def begin(story: Story, input: Compact) -> None:
    """Begin a summary, or trim where that does; nothing happens where nothing is old enough."""
    if why_not(story.run):
        return
    if (fact := trimming(story.run, input.room)) is not None:
        story.tell(fact)
        return
    found = wanted(story.run)
    assert found is not None, "why_not has looked"
    agent, context, count = found
    story.tell(e.CompactionBegan(agent=agent, context=context, count=count, note=input.note))


def ended(story: Story, input: ModelReplied | ModelFailed) -> None:
    """Say what came of the request for a summary."""
    under_way = story.run.compacting
    if under_way is None or input.key != summary_key(under_way.number):
        return
    if isinstance(input, ModelReplied):
        _replied(story, under_way, input)
        return
    story.tell(
        e.CompactionEnded(
            agent=under_way.agent,
            reason=input.error,
            hint=input.hint,
            is_error=True,
            usage=input.usage,
        )
    )


def _replied(story: Story, under_way: Compacting, input: ModelReplied) -> None:
    """Put the summary in the place of what it was made of, if that still stands there."""
    summary, usage = input.text.strip(), input.usage
    messages, count = story.run.contexts[under_way.context], len(under_way.replaced)
    if messages[:count] != under_way.replaced:
        story.tell(e.CompactionEnded(agent=under_way.agent, reason=CHANGED, usage=usage))
        return
    after = compacted(messages, count, summary)
    before_tokens, after_tokens = tokens_of(messages), tokens_of(after)
    if not summary or after_tokens >= before_tokens:
        reason = NO_SHORTER if summary else NO_SUMMARY
        story.tell(e.CompactionEnded(agent=under_way.agent, reason=reason, usage=usage))
        return
    story.tell(
        e.ConversationCompacted(
            agent=under_way.agent,
            context=under_way.context,
            count=count,
            summary=summary,
            tokens_before=before_tokens,
            tokens_after=after_tokens,
            usage=usage,
        )
    )


def stop(story: Story, shown: tuple[Shown, ...]) -> None:
    """End a summary that is under way, because a person interrupted."""
    under_way = story.run.compacting
    if under_way is not None:
        key = summary_key(under_way.number)
        usage = next((part.usage for part in shown if part.key == key), None)
        story.tell(e.CompactionEnded(agent=under_way.agent, reason=INTERRUPTED, usage=usage))


def hand_over_queued(story: Story) -> None:
    """Give a run that waits for words those that were to wait for the summary, once that is over."""
    run = story.run
    if run.visit.phase != "waiting" or run.compacting is not None or not run.visit.state:
        return
    waiting = [record for record in story.undelivered() if record.handling == "queue"]
    question = next((q for q in story.own_questions() if q.kind == "input"), None)
    if not waiting or question is None:
        return
    text = "\n".join(record.text for record in waiting)
    story.tell(e.QuestionAnswered(question_id=question.id, answer=text, input_id=waiting[0].id))
    for record in waiting:
        story.dispose(record.id, "queued")
    join_words(story, text)
