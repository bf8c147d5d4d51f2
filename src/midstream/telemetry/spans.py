"""Facts to spans. Nothing else goes in: no clock, no chance, nothing of the process that does it.

`under_way(run)` says what stands open in a run, as `core.pending` says what it is owed; a span is one of
these, from the fact with which it is first there to the one with which it is there no more:

    run (or the part of it that a fork has of its own) > visit to a state > turn of an agent
        > request to a model, tool call (> branch, where an agent handed it on), question to a person
    visit to a state > handler, branch > visit ...

A recovery closes nothing: what was owed is owed still, so the span goes on, and an event says that a
process died.
Times never run backwards within a run, whatever the clock of a machine did.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from midstream.core import events as e
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.question import OUTCOMES
from midstream.core.run import Run
from midstream.safety.redaction import Redactor
from midstream.telemetry import names as n
from midstream.telemetry.content import Words, content_after, content_before
from midstream.telemetry.figures import Attributes, Figures
from midstream.telemetry.under_way import (
    ROOT,
    Key,
    Thing,
    is_halting,
    owner_at,
    prefix_of,
    under_way,
)

INTERNAL, CLIENT = 1, 3
"""Kinds of spans, by their numbers in OTLP."""

MAX_EVENTS: Final = 128


class Event(msgspec.Struct, frozen=True):
    """Something that happened during a span; `at` in nanoseconds since 1970."""

    name: str
    at: int
    attributes: Attributes


class Link(msgspec.Struct, frozen=True):
    """A span of another trace that this one has to do with."""

    trace: bytes
    span: bytes
    attributes: Attributes


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What was under way, and has ended. Times are in nanoseconds since 1970; `parent` is b"" of the first.

    `error` says of which kind its failure was, "" where it did not fail. `seq` is the fact it ended with.
    """

    trace: bytes
    id: bytes
    parent: bytes
    name: str
    kind: int
    start: int
    end: int
    seq: int
    attributes: Attributes
    events: tuple[Event, ...] = ()
    dropped_events: int = 0
    links: tuple[Link, ...] = ()
    error: str = ""


class Fork(msgspec.Struct, frozen=True):
    """Where a run was forked from: the first `seq` facts are those of `parent`.

    What the parent has of its own begins with fact `root`: 1, or where that was forked itself.
    """

    parent: str
    seq: int
    root: int = 1


class _Open(msgspec.Struct):
    thing: Thing
    id: bytes
    parent: bytes
    start: int
    attributes: Attributes
    events: list[Event] = msgspec.field(default_factory=list)
    dropped: int = 0
    cut: str = ""
    """How an interruption ends it: `interrupted`, or the kind of trouble."""


def trace_id(run: str, first_at: float) -> bytes:
    """Return the id of a run's trace; the time of its first fact tells runs of two machines apart."""
    return _digest(f"midstream {run} {first_at!r}", 16)


def span_id(run: str, seq: int, key: Key) -> bytes:
    """Return the id of what began in a run with fact `seq`."""
    return _digest(f"midstream {run} {seq} {key!r}", 8)


def _digest(text: str, size: int) -> bytes:
    made = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()
    return made if any(made) else b"\1" * size  # all zeros is no id


class Trace:
    """The spans and figures of one run, as its facts come, from the first on.

    Args:
        run: the run's id.
        redactor: takes the secrets out of every text.
        fork: where the run was forked from. What is told of it begins there, in a trace of its own.
        content: whether words and arguments are told.
    """

    def __init__(
        self, run: str, redactor: Redactor, *, fork: Fork | None = None, content: bool = False
    ) -> None:
        self.run = Run(id=run)
        self.figures = Figures()
        self.start = 0
        """When the run began, in nanoseconds since 1970."""
        self._words = Words(redactor)
        self._fork = fork
        self._content = content
        self._id = b""
        self._workflow = ""
        self._open: dict[Key, _Open] = {}
        self._now = 0
        self._links: tuple[Link, ...] = ()
        self._said_at: float | None = None
        self._halting: tuple[Key, float] | None = None

    @property
    def open(self) -> int:
        """Return how many spans have begun and not ended."""
        return len(self._open)

    def hear(self, envelope: Envelope) -> list[Span]:
        """Return the spans that end with the run's next fact, what is within before what is around it."""
        fact: Any = envelope.event
        if not self._id:
            self._begin(envelope)
        self._now = max(self._now, round(envelope.at * 1_000_000_000))
        shared = 0 if self._fork is None else self._fork.seq
        if self.run.seq < shared:
            self.run = apply(self.run, fact)
            return []
        if not self.start:
            self.start = self._now
            if shared:  # what the fork goes on with begins anew, in it
                self._begin_new(self._things())
        before, self.run = self.run, apply(self.run, fact)
        self._note(fact, envelope.at, before)
        things = self._things()
        standing = {thing.key for thing in things}
        gone = [key for key in reversed(self._open) if key not in standing]
        ended = [self._ended(self._open.pop(key), fact) for key in gone]
        self._begin_new(things)
        return [span for span in ended if span is not None]

    def _begin(self, first: Envelope) -> None:
        if isinstance(first.event, e.RunStarted):
            self._workflow = first.event.workflow
        self._id = trace_id(self.run.id, first.at)
        if self._fork is not None:
            of = trace_id(self._fork.parent, first.at)
            root = span_id(self._fork.parent, self._fork.root, ROOT)
            self._links = (Link(of, root, {n.RUN: self._fork.parent, n.FORKED_AT: self._fork.seq}),)

    # --- what stands open -------------------------------------------------------------------

    def _things(self) -> list[Thing]:
        return [] if self.run.is_over else [*under_way(self.run, self._workflow, self._open)]

    def _begin_new(self, things: Iterable[Thing]) -> None:
        for thing in things:
            if thing.key in self._open:
                continue
            around = self._open.get(thing.around) or self._open.get(ROOT)
            attributes = {
                **thing.attributes,
                n.CONVERSATION: self.run.id,
                n.RUN: self.run.id,
                n.SEQ: self.run.seq,
            }
            if self._content:
                attributes |= self._words.content(content_before(self.run, thing))
            self._open[thing.key] = _Open(
                thing=thing,
                id=span_id(self.run.id, self.run.seq, thing.key),
                parent=b"" if around is None else around.id,
                start=self._now,
                attributes=attributes,
            )

    def _ended(self, open: _Open, fact: e.AnyFact) -> Span | None:
        """Return what has ended as a span; None where it was only passed through."""
        kind, thing = open.thing.kind, open.thing
        outcome, error = _ending(kind, fact, open.cut)
        more = _counted(fact) if kind == "model" else {}
        if open.start == self._now and kind in ("model", "handler") and type(fact) not in _RESULTS:
            return None
        name = thing.name
        if kind == "model" and n.MODEL in more:
            name = f"{n.CHAT} {more[n.MODEL]}"
        if self._content:
            more |= self._words.content(content_after(kind, fact))
        attributes = {**open.attributes, **more, n.OUTCOME: outcome}
        if error:
            attributes[n.ERROR] = error
        self._measure(open, attributes)
        return Span(
            trace=self._id,
            id=open.id,
            parent=open.parent,
            name=self._words.word(name),
            kind=CLIENT if kind == "model" else INTERNAL,
            start=open.start,
            end=self._now,
            seq=self.run.seq,
            attributes=self._words.attributes(attributes),
            events=tuple(open.events),
            dropped_events=open.dropped,
            links=self._links if kind == "run" else (),
            error=error,
        )

    # --- what happens meanwhile -------------------------------------------------------------

    def _note(self, fact: e.AnyFact, at: float, before: Run) -> None:
        """Keep what a fact means to what stands open, and count it."""
        at_ns, add = self._now, self.figures.add
        prefix = prefix_of(before, fact.branch)
        run: Attributes = {n.RUN: self.run.id}
        match fact:
            case e.InputReceived():
                said: Attributes = {n.HANDLING: fact.handling, n.SOURCE: fact.source}
                if self._content:
                    said |= self._words.content({n.TEXT: fact.text})
                self._happened("input_received", said)
                self._said_at = fact.at if fact.handling == "interrupt" else None
            case e.Interrupted():
                is_new = owner_at(before, (*prefix, "")).halt.epoch != fact.epoch
                if is_new and fact.trouble is None:
                    add(n.INTERRUPTIONS, 1, at_ns, {n.LEADS_TO: fact.leads_to, **run})
                if is_new and fact.leads_to == "words" and self._said_at is not None:
                    took = max(at - self._said_at, 0.0)
                    add(n.HALT, took, at_ns, {n.STAGE: "words", **run})
                    self._halting = (prefix, self._said_at)
                self._happened("interrupted", {n.LEADS_TO: fact.leads_to}, prefix)
                for key, open in self._open.items():
                    if key[: len(prefix)] == prefix and open.thing.kind != "run":
                        open.cut = fact.trouble or "interrupted"
            case e.RunRecovered():
                if fact.was_cut:
                    add(n.RECOVERIES, 1, at_ns, {n.CUT_WORK: fact.cut_work, **run})
                for open in self._open.values():
                    self._add_event(open, "recovered", {n.CUT_WORK: fact.cut_work})
            case e.StateFailed():
                told: Attributes = {
                    n.STATE: fact.state,
                    n.ERROR: fact.kind,
                    n.ATTEMPT: fact.attempt,
                }
                self._happened(f"{fact.then}_after_failure", told, prefix)
                if fact.then == "retry":
                    add(n.RETRIES, 1, at_ns, {n.RETRIED: "state", **run})
            case e.ReplyCut(reason=reason) if reason:
                add(n.RETRIES, 1, at_ns, {n.RETRIED: "reply", **run})
            case e.StateRetried():
                for key, open in self._open.items():
                    if open.thing.kind == "state" and key[:-2] == prefix:
                        open.cut = ""
            case e.BudgetReached():
                self._happened("budget_reached", {n.STATE: fact.state}, prefix)
            case e.RunSuspended():
                self._happened("suspended", {n.REASON: fact.reason})
            case e.RunResumed():
                self._happened("resumed", {})
            case e.ToolReturned(outcome="unknown"):
                add(n.UNKNOWN, 1, at_ns, {n.TOOL: self._words.word(fact.name), **run})
        if self._halting is not None and not is_halting(self.run, self._halting[0]):
            took = max(at - self._halting[1], 0.0)
            add(n.HALT, took, at_ns, {n.STAGE: "stopped", **run})
            self._halting = None
        if (usage := e.usage_in(fact)) is not None:
            self._count_usage(usage, getattr(fact, "agent", ""), run)

    def _happened(self, name: str, attributes: Attributes, prefix: Key = ()) -> None:
        """Add an event to the visit it happened in, else to the run."""
        found = self._open.get(ROOT)
        for key, open in self._open.items():
            if open.thing.kind == "state" and key[:-2] == prefix:
                found = open
        if found is not None:
            self._add_event(found, name, attributes)

    def _add_event(self, open: _Open, name: str, attributes: Attributes) -> None:
        if len(open.events) >= MAX_EVENTS:
            open.dropped += 1
        else:
            open.events.append(
                Event(f"midstream.{name}", self._now, self._words.attributes(attributes))
            )

    # --- figures ----------------------------------------------------------------------------

    def _count_usage(self, usage: e.Usage, agent: str, run: Attributes) -> None:
        provider, model = _model_of(usage)
        of = self._words.attributes(
            {n.OPERATION: n.CHAT, n.PROVIDER: provider, n.MODEL: model, **run}
        )
        by = self._words.attributes({n.AGENT: agent, n.PROVIDER: provider, n.MODEL: model, **run})
        tokens = {n.MODALITY: "unknown", **of}
        sent, made = max(usage.input_tokens, 0), max(usage.output_tokens, 0)
        add = self.figures.add
        add(n.INPUT_USED, sent, self._now, tokens)
        add(n.OUTPUT_USED, made, self._now, tokens)
        if usage.cached_tokens > 0:
            add(n.CACHED_USED, usage.cached_tokens, self._now, tokens)
        add(n.TOKENS_OLD, sent, self._now, {n.TOKEN_TYPE: "input", **of})
        add(n.TOKENS_OLD, made, self._now, {n.TOKEN_TYPE: "output", **of})
        price = usage.price
        if price is None:
            add(n.UNPRICED, 1, self._now, by)
        else:
            add(n.SPENT, float(price), self._now, by)

    def _measure(self, open: _Open, attributes: Attributes) -> None:
        took = (self._now - open.start) / 1_000_000_000
        metrics, by = _MEASURED.get(open.thing.kind, ((), ()))
        for metric in metrics:
            kept = {name: attributes[name] for name in (*by, n.RUN, n.ERROR) if name in attributes}
            self.figures.add(metric, took, self._now, self._words.attributes(kept))


_RESULTS: Final = (
    *(e.AgentResponded, e.AgentFailed, e.HandlerRan, e.ReplyCut, e.StateFailed, e.RunFailed),
    *(e.ConversationCompacted, e.CompactionEnded, e.BranchFailed),
)
"""Facts that say what came of a request or a handler. One that ends at once without never began."""

_MEASURED: Final[Mapping[str, tuple[tuple[n.Metric, ...], tuple[str, ...]]]] = {
    "run": ((n.AGENT_DURATION,), (n.OPERATION, n.AGENT)),
    "turn": ((n.AGENT_DURATION,), (n.OPERATION, n.AGENT)),
    "model": ((n.INFERENCE, n.OPERATION_OLD), (n.OPERATION, n.PROVIDER, n.MODEL)),
    "tool": ((n.TOOL_DURATION,), (n.OPERATION, n.TOOL, n.TOOL_TYPE)),
    "question": ((n.WAIT,), (n.QUESTION, n.OUTCOME)),
}
"""Which metrics hold how long a span took, and by which of its attributes."""


# --- how it ended -------------------------------------------------------------------------------


def _ending(kind: str, fact: e.AnyFact, cut: str) -> tuple[str, str]:
    """Return how something ended with a fact: outcome, and kind of error."""
    match fact:
        case e.ToolReturned(outcome=outcome) if kind == "tool":
            return outcome, outcome if outcome in ("failed", "unknown") else ""
        case e.AgentResponded() | e.ConversationCompacted() if kind == "model":
            return "completed", ""
        case e.CompactionEnded(is_error=is_error) if kind == "model":
            return ("failed", "model") if is_error else ("interrupted", "")
        case e.QuestionAnswered() if kind == "tool":  # a person said what became of it
            outcome = OUTCOMES.get(str(fact.answer), ("unknown", ""))[0]
            return outcome, outcome if outcome == "unknown" else ""
        case e.QuestionAnswered() if kind == "question":
            return "answered", ""
        case e.QuestionSuperseded() if kind == "question":
            return "superseded", ""
        case e.QuestionExpired() if kind == "question":
            return "expired", ""
        case e.ReplyCut(reason=reason):
            return ("failed", "broken_off") if reason else ("interrupted", "")
        case e.AgentFailed():
            return "failed", "model"
        case e.StateFailed(kind=trouble):
            return "failed", trouble
        case e.RunFailed(fault=fault) | e.BranchFailed(fault=fault):
            return "failed", fault
        case e.RunStopped() | e.BranchStopped():
            return "stopped", ""
        case e.RunFinished() | e.BranchFinished():
            return "completed", ""
    if cut not in ("", "interrupted"):
        return "failed", cut
    is_cut = cut or (kind in ("model", "tool") and type(fact) not in _RESULTS)
    return "interrupted" if is_cut else "completed", ""


def _counted(fact: e.AnyFact) -> Attributes:
    """Return what a request to a model that ended with a fact used, and why it ended."""
    match fact:
        case e.AgentResponded():
            reason = "tool_call" if fact.calls else "stop"
            return _used(fact.usage) | {n.FINISH_REASONS: (reason,)}
    return _used(e.usage_in(fact))


def _model_of(usage: e.Usage) -> tuple[str, str]:
    """Return the conventions' name of the provider, and the model."""
    provider, colon, model = usage.model.partition(":")
    return (n.PROVIDERS.get(provider, provider), model) if colon else ("midstream", usage.model)


def _used(usage: e.Usage | None) -> Attributes:
    if usage is None:
        return {}
    provider, model = _model_of(usage)
    used: Attributes = {
        n.PROVIDER: provider,
        n.MODEL: model,
        n.INPUT_TOKENS: max(usage.input_tokens, 0),
        n.OUTPUT_TOKENS: max(usage.output_tokens, 0),
        n.CACHED_TOKENS: max(usage.cached_tokens, 0),
    }
    price = usage.price
    return used if price is None else used | {n.COST: float(price)}
