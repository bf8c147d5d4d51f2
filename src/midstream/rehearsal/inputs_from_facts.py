"""From facts back to the inputs that made them true.

A journal holds what became true, not what was said. But `decide` is pure: an input is found again by
guessing it from the facts and judging the guess. If that gives just the facts that follow, it was it.
So nothing here knows how halts, answers or retries work; only which facts an input can begin with.

A fact of a branch is judged by the branch as it stands: what ended there is an effect of the branch,
with its key as the whole run has it.
"""

from collections.abc import Iterator, Sequence
from itertools import product, takewhile
from typing import Literal

import msgspec

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.call_notes import REFUSED, added_words, with_change
from midstream.core.conversation import length
from midstream.core.decide.decide import judged
from midstream.core.pending import (
    call_key,
    handler_key,
    request_key,
    review_key,
    set_key,
    timer_key,
)
from midstream.core.proposal import mode_of
from midstream.core.routing import Destination, branch_at, living
from midstream.core.run import DEADLINE, RETRY, TIMEOUT, WAITED, WITHIN, Run
from midstream.core.summaries import summary_key
from midstream.core.todo import parse_edit
from midstream.language.errors import UserMistake
from midstream.language.names import Json, Policy

_RESULT = "\0"
_HANDLERS = ("pre", "post", "transition")
_NOTHING = inputs.Withdraw(input_id="")
_REFUSED = " They said: "


def _key_from(run: Run, path: str, key: inputs.EffectKey) -> inputs.EffectKey:
    """Return the key that an effect of the branch at a path has for the whole run."""
    if not path:
        return key
    name, _, rest = path.partition("/")
    return (run.visit.step, WITHIN, name, *_key_from(run.visit.branches[name], rest, key))


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """An input with the run before it, the facts it made true (the first is number `seq`), and when.

    `worked_s`: the run was at work for so many seconds more by then.
    """

    input: inputs.AnyInput
    before: Run
    facts: tuple[e.AnyFact, ...]
    seq: int
    at: float
    worked_s: float = 0.0


def inputs_of(facts: Sequence[e.AnyFact], times: Sequence[float]) -> list[Heard]:
    """Return the inputs that made a run's facts true, in order.

    Args:
        facts: all of the run's facts, from the first.
        times: when each became true, in seconds since 1970.

    Raises:
        UserMistake: some facts are none that this midstream would come to.
    """
    run, done = Run(id="recorded"), 0
    heard: list[Heard] = []
    while done < len(facts):
        rest, at = facts[done:], times[done]
        worked_s = rest[0].seconds if isinstance(rest[0], e.TimeSpent) else 0.0
        for guess in _guesses(run, rest[1:] if worked_s else rest, at):
            story = judged(run, guess, worked_s)
            count = len(story.facts)
            if count and list(rest[:count]) == story.facts:
                break
        else:
            raise UserMistake(
                f"Fact {done + 1} ({type(rest[0]).__struct_config__.tag}) is not what this version "
                "would do there, so the run cannot be rehearsed.",
                hint="The run failed from outside, or another version made it: record it again.",
            )
        input = _as_cut(guess, run, story.facts)
        heard.append(
            Heard(
                input=input,
                before=run,
                facts=tuple(story.facts),
                seq=done + 1,
                at=at,
                worked_s=worked_s,
            )
        )
        run, done = story.run, done + count
    return heard


def _as_cut(input: inputs.AnyInput, run: Run, facts: Sequence[e.AnyFact]) -> inputs.AnyInput:
    """Return an input with what was seen of the replies it cut: others may have been cut later on."""
    if not isinstance(input, inputs.Halt | inputs.Stop | inputs.TimerRang | inputs.UserSaid):
        return input
    has_calls = any(part.has_calls for part in input.shown)
    shown = _shown(run, facts, has_calls=has_calls) if input.shown else ()
    return msgspec.structs.replace(input, shown=shown)


def _guesses(run: Run, rest: Sequence[e.AnyFact], at: float) -> Iterator[inputs.AnyInput]:
    if not rest:
        yield _NOTHING
        return
    fact = rest[0]
    here = branch_at(run, fact.branch)
    if here is not None:
        yield from _of_effects(run, here, rest)
    for inner in (run, *living(run)):
        # What a handler's failure begins with may be told of the run around it, or of a line.
        if inner is not here and inner.visit.phase in _HANDLERS:
            yield from _of_handler(run, inner, rest)
    match fact:
        case e.RunStarted():
            yield inputs.Start(
                definition=fact.definition,
                input=fact.input,
                variables=fact.variables,
                allowed=fact.allowed,
                approvals=fact.approvals,
                limits=fact.limits,
                workspace=fact.workspace,
                pictures=fact.pictures,
                hooked=fact.hooked,
                source=fact.source,
            )
        case (
            e.ToolReturned()
            | e.RunRecovered()
            | e.DefinitionChanged()
            | e.LimitsSet()
            | e.QuestionAsked()
        ):
            yield from _recoveries(rest)
        case e.Interrupted() | e.ReplyCut():
            yield from _of_person(run, rest, at)
            yield from _recoveries(rest)
        case e.RunResumed():
            yield from _of_person(run, rest[1:], at)
            yield inputs.Resume()
        case e.StateTransition(resumes=True) if run.visit.phase == "held":
            yield inputs.Resume()
        case _:
            yield from _of_person(run, rest, at)
    yield _NOTHING  # time at work, told when the run was let go of


def _of_effects(run: Run, here: Run, rest: Sequence[e.AnyFact]) -> Iterator[inputs.AnyInput]:
    """Yield the ends of effects of a branch (or of the run itself) that a fact of it may come from."""
    fact = rest[0]

    def key(inner: inputs.EffectKey) -> inputs.EffectKey:
        return _key_from(run, here.branch.path, inner)

    if here.visit.phase in _HANDLERS:
        yield from _of_handler(run, here, rest)
    match fact:
        case e.ConversationCompacted() | e.CompactionEnded():
            yield from _summaries(run, fact)
        case e.AgentResponded():
            yield from _replies(run, here, fact, rest)
        case e.ReplyCut() if fact.reason and here.visit.turn is not None:
            yield inputs.ModelFailed(
                key=key(request_key(here)),
                error=fact.reason,
                shown=fact.partial,
                is_broken=True,
                usage=fact.usage,
                calling=fact.calling,
            )
        case e.ReplyShown():
            yield inputs.ReplyCheckpoint(
                key=key(request_key(here)),
                text=fact.text,
                so_far=fact.so_far,
                calling=fact.calling,
            )
        case e.AgentFailed() if here.visit.turn is not None:
            yield inputs.ModelFailed(
                key=key(request_key(here)),
                error=fact.error,
                hint=fact.hint,
                shown=fact.partial,
                usage=fact.usage,
                calling=fact.calling,
            )
        case e.ToolReturned():
            yield _finished(run, here, fact)
            yield from _reviews(run, here, fact)
        case e.ToolCalled() | e.QuestionAsked():
            yield from _reviews(run, here, fact)
        case e.ToolEnded():
            ended = key(call_key(here, fact.call_id))
            yield inputs.ToolEnded(key=ended, ended=msgspec.structs.replace(fact, branch=""))
        case e.HookRan(call_id=call_id) if call_id:
            yield from _hooked(run, here, rest)
        case e.BranchStarted(definition=definition) if definition is not None:
            key_of_call = key(call_key(here, fact.call_id))
            yield inputs.WorkflowFound(key=key_of_call, definition=definition)
        case e.FileWritten():
            yield inputs.FileChanging(
                key=key(call_key(here, fact.call_id)),
                path=fact.path,
                before=fact.before,
                after=fact.after,
                folders=fact.folders,
            )
        case e.TimerSet():
            yield inputs.TimerStarted(key=key(set_key(here, fact.timer)), until=fact.until)
        case e.Interrupted(trouble="timeout"):
            yield inputs.TimerRang(key=key(timer_key(here, TIMEOUT)), shown=_shown(run, rest))
        case e.WorkDone() | e.StateRetried() | e.QuestionExpired():
            for timer in (WAITED, RETRY, DEADLINE):
                yield inputs.TimerRang(key=key(timer_key(here, timer)))
        case _:
            return


def _summaries(
    run: Run, fact: e.ConversationCompacted | e.CompactionEnded
) -> Iterator[inputs.ModelReplied | inputs.ModelFailed]:
    """Yield what the request for a summary came to: a summary, none, one too long, or a failure."""
    if run.compacting is None:
        return
    key = summary_key(run.compacting.number)
    if isinstance(fact, e.ConversationCompacted):
        yield inputs.ModelReplied(key=key, text=fact.summary, usage=fact.usage)
        return
    too_long = "x" * sum(map(length, run.contexts[run.compacting.context]))
    for text in ("", too_long):
        yield inputs.ModelReplied(key=key, text=text, usage=fact.usage)
    yield inputs.ModelFailed(key=key, error=fact.reason, hint=fact.hint, usage=fact.usage)


def _hooked(run: Run, here: Run, rest: Sequence[e.AnyFact]) -> Iterator[inputs.AnyInput]:
    """Yield the review of a call that hooks had a say in first, or its end that they had a say in."""
    hooks = tuple(takewhile(lambda fact: isinstance(fact, e.HookRan), rest))
    after = rest[len(hooks)] if len(hooks) < len(rest) else None
    told = tuple(
        msgspec.structs.replace(ran, branch="") for ran in hooks if isinstance(ran, e.HookRan)
    )
    if isinstance(after, e.ToolCalled | e.QuestionAsked | e.ToolReturned):
        for review in _reviews(run, here, after):
            yield msgspec.structs.replace(review, hooks=told)
    if isinstance(after, e.ToolReturned):
        yield _finished(run, here, after, told)


def _finished(
    run: Run, here: Run, fact: e.ToolReturned, hooks: tuple[e.HookRan, ...] = ()
) -> inputs.ToolFinished:
    """Return the end of a call, without what was put before and below its result."""
    calls = () if here.visit.turn is None else here.visit.turn.calls
    call = next((each for each in calls if each.call.id == fact.call_id), None)
    before = after = ""
    if call is not None:
        more = tuple(added_words(ran) for ran in hooks if ran.added)
        whole = msgspec.structs.replace(call, added=(*call.added, *more))
        before, _, after = with_change(whole, _RESULT).partition(_RESULT)
    return inputs.ToolFinished(
        key=_key_from(run, here.branch.path, call_key(here, fact.call_id)),
        outcome=fact.outcome,
        text=fact.result.removeprefix(before).removesuffix(after),
        pictures=fact.pictures,
        hooks=hooks,
        note=fact.note,
    )


def _reviews(
    run: Run, here: Run, fact: e.ToolCalled | e.QuestionAsked | e.ToolReturned
) -> Iterator[inputs.CallReviewed]:
    """Yield the review of a call that was still new."""
    calls = () if here.visit.turn is None else here.visit.turn.calls
    if not any(call.call.id == fact.call_id and call.status == "new" for call in calls):
        return
    key = _key_from(run, here.branch.path, review_key(here, fact.call_id))
    match fact:
        case e.ToolCalled():
            kind: Literal["allow", "ask"] = "ask" if fact.granted else "allow"
            yield inputs.CallReviewed(key=key, kind=kind, asks=fact.granted)
        case e.QuestionAsked():
            shows = fact.text.partition("\n")[2]
            yield inputs.CallReviewed(
                key=key, kind="ask", asks=fact.asks, shows=shows, reason=fact.why
            )
        case e.ToolReturned():
            yield inputs.CallReviewed(
                key=key, kind="deny", reason=fact.result.removeprefix(REFUSED)
            )
            yield inputs.CallReviewed(key=key, kind="allow")  # and the budget was used up


def _of_handler(run: Run, here: Run, rest: Sequence[e.AnyFact]) -> Iterator[inputs.AnyInput]:
    fact, key = rest[0], _key_from(run, here.branch.path, handler_key(here))
    if isinstance(fact, e.HandlerRan):
        yield inputs.HandlerReturned(
            key=key,
            changed=fact.changed,
            removed=fact.removed,
            edits=fact.edits,
            variables=fact.variables,
            contexts=fact.contexts,
            chosen=fact.chosen,
        )
    elif isinstance(fact, e.WorkflowOutput):
        yield inputs.HandlerLogged(key=key, text=fact.text)
    elif isinstance(fact, e.StateFailed):
        yield inputs.HandlerFailed(key=key, error=fact.error, hint=fact.hint)
    of_it = [each for each in rest if each.branch == here.branch.path]
    failed = next((each for each in of_it if isinstance(each, e.RunFailed | e.BranchFailed)), None)
    if failed is not None:
        yield inputs.HandlerFailed(
            key=key, error=failed.error, hint=failed.hint, fault=failed.fault
        )


def _replies(
    run: Run, here: Run, fact: e.AgentResponded, rest: Sequence[e.AnyFact]
) -> Iterator[inputs.AnyInput]:
    """Yield the replies a fact may come from: with calls as they were begun, or all unusable."""
    if here.visit.turn is None:
        return
    begun = {f.call_id for f in rest if isinstance(f, e.ToolCalled | e.QuestionAsked) and f.call_id}
    ended = {f.call_id: f for f in reversed(rest) if isinstance(f, e.ToolReturned)}

    def problem_of(call_id: str) -> str:
        returned = ended.get(call_id)
        is_refused = returned is not None and returned.outcome == "failed"
        return returned.result if returned and is_refused and call_id not in begun else ""

    for with_problems in (False, True):
        yield inputs.ModelReplied(
            key=_key_from(run, here.branch.path, request_key(here)),
            text=fact.text,
            calls=tuple(
                inputs.RequestedCall(
                    name=call.name,
                    arguments=call.arguments,
                    problem=(problem_of(call.id) or fact.problem) if with_problems else "",
                )
                for call in fact.calls
            ),
            usage=fact.usage,
        )


def _recoveries(rest: Sequence[e.AnyFact]) -> Iterator[inputs.AnyInput]:
    """Yield the recovery that ends in the next `run_recovered`, if there is one."""
    ends = next((fact for fact in rest if isinstance(fact, e.RunRecovered)), None)
    if ends is not None:
        first = rest[0]
        definition = first.definition if isinstance(first, e.DefinitionChanged) else None
        told = rest[: rest.index(ends)]
        limited = next((fact for fact in told if isinstance(fact, e.LimitsSet)), None)
        yield inputs.Recovered(
            was_cut=ends.was_cut,
            definition=definition,
            is_foreign=limited is not None,
            limits=None if limited is None else limited.limits,
            hooked=ends.hooked,
        )


def _of_person(run: Run, rest: Sequence[e.AnyFact], at: float) -> Iterator[inputs.AnyInput]:
    fact = rest[0] if rest else None
    match fact:
        case e.HookRan():
            hooks = tuple(takewhile(lambda fact: isinstance(fact, e.HookRan), rest))
            left = rest[len(hooks) :]
            gone = next((f for f in left[:2] if isinstance(f, e.InputDisposed)), None)
            for guess in _of_person(run, left, at):
                if isinstance(guess, inputs.UserSaid):
                    yield msgspec.structs.replace(guess, hooks=hooks)
                    if gone is not None:
                        yield msgspec.structs.replace(guess, hooks=hooks, refused=gone.reason)
        case e.CompactionBegan():
            yield inputs.Compact(note=fact.note)
        case e.ResultsTrimmed():
            yield inputs.Compact(room=fact.room)
        case e.CompactionEnded():
            yield inputs.Halt(shown=_shown(run, rest))
        case e.RunRenamed():
            yield inputs.Rename(name=fact.name)
        case e.TodoEdited():
            yield inputs.EditTodo(edit=parse_edit(fact.edit))
        case e.InputReceived(handling="answer"):
            yield from _answers(run, fact, rest, at)
        case e.InputReceived():
            yield from _words(run, fact, rest, at)
        case e.Interrupted(leads_to="hold"):
            yield inputs.Halt(shown=_shown(run, rest))
        case e.Interrupted():
            yield inputs.Stop(reason=fact.reason, shown=_shown(run, rest))
        case e.QuestionAnswered():
            refused = next((f for f in rest[:3] if isinstance(f, e.ToolReturned)), None)
            note = "" if refused is None else refused.result.partition(_REFUSED)[2]
            after = rest[1] if len(rest) > 1 else None
            if isinstance(after, e.CallEdited):
                edited = after.arguments
                yield inputs.Approve(question=fact.question_id, granted=True, edited=edited)
            yield inputs.Approve(
                question=fact.question_id,
                granted=fact.answer != "no",
                for_run=any(isinstance(f, e.PermissionGranted) for f in rest[:3]),
                note=note,
                mode=mode_of(fact.answer) or "ask",
            )
            yield inputs.Approve(question=fact.question_id, granted=fact.answer != "no", note=note)
        case e.PermissionRevoked():
            yield inputs.Revoke(permission=fact.permission)
        case e.InputDisposed():
            yield inputs.Withdraw(input_id=fact.input_id)
        case _:
            return


def _answers(
    run: Run, fact: e.InputReceived, rest: Sequence[e.AnyFact], at: float
) -> Iterator[inputs.AnyInput]:
    after = rest[1] if len(rest) > 1 else None

    def said(question: str, answer: Json = None, problem: str = "") -> inputs.UserSaid:
        return inputs.UserSaid(
            id=fact.input_id,
            to=Destination(text=fact.text, question=question),
            at=at,
            source=fact.source,
            answer=answer,
            problem=problem,
            pictures=fact.pictures,
        )

    if isinstance(after, e.QuestionAnswered):
        yield said(after.question_id, after.answer)
    elif isinstance(after, e.AnswerRefused):
        yield said(after.question_id)
        yield said(after.question_id, problem=after.reason)
    else:
        for question in run.inbox.questions:
            yield said(question.id)
        reason = after.reason if isinstance(after, e.InputDisposed) else ""
        yield said(reason.rpartition(" ")[2])


def _words(
    run: Run, fact: e.InputReceived, rest: Sequence[e.AnyFact], at: float
) -> Iterator[inputs.AnyInput]:
    policies: tuple[Policy | None, ...] = (None,)
    if fact.handling != "answer":
        policies = (None, fact.handling)
    for policy, has_calls in product(policies, (False, True)):
        yield inputs.UserSaid(
            id=fact.input_id,
            to=Destination(text=fact.text, branch=fact.to),
            at=at if fact.at is None else fact.at,
            source=fact.source,
            policy=policy,
            shown=_shown(run, rest, has_calls=has_calls),
            pictures=fact.pictures,
        )


def _shown(
    run: Run, rest: Sequence[e.AnyFact], *, has_calls: bool = False
) -> tuple[inputs.Shown, ...]:
    """Return what was seen of every reply that streams: as the fact that cuts it says."""
    cuts: dict[str, tuple[str, e.Usage | None, str]] = {}
    summary: e.Usage | None = None
    for fact in rest:
        if isinstance(fact, e.Interrupted | e.ReplyCut):
            cuts.setdefault(fact.branch, (fact.partial, fact.usage, fact.calling))
        elif isinstance(fact, e.CompactionEnded):
            summary = summary or fact.usage
    shown = []
    for inner in (run, *living(run)):
        if inner.visit.replying is not None:
            text, usage, calling = cuts.get(inner.branch.path, ("", None, ""))
            shown.append(
                inputs.Shown(
                    key=_key_from(run, inner.branch.path, request_key(inner)),
                    text=text,
                    has_calls=has_calls or bool(calling),
                    usage=usage,
                    calling=calling,
                )
            )
    if run.compacting is not None and summary is not None:
        key = summary_key(run.compacting.number)
        shown.append(inputs.Shown(key=key, text="", usage=summary))
    return tuple(shown)
