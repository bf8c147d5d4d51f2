"""The turns of a run: what each said and used, where to go back to, and the last ones for who comes back.

What counts as a turn is said by the listing alone (`listing.begins_turn`): /history and the last turns
of --continue count the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from midstream.core import events as e
from midstream.core.append_only import latest
from midstream.core.conversation import NOTE, SUMMARY, USER, Message
from midstream.core.costs import Cost, costs, counted, in_words, mark_of
from midstream.core.notices import Envelope
from midstream.core.routing import as_typed
from midstream.core.run import Run
from midstream.language.names import NEVER_RUN, REQUEST_USERS_INPUT
from midstream.views.amounts import in_short, span_words, time_of_day
from midstream.views.calls_in_words import tool_names
from midstream.views.cells import clipped, one_line
from midstream.views.listing import Summary, begins_turn, is_heard, summarised

# --- points to go back to -------------------------------------------------------------------------------


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of run `run`. `at` is the fact before its words; `words` are they as they were typed."""

    run: str
    at: int
    words: str


def turns_of(run: str, facts: Sequence[Envelope]) -> tuple[Turn, ...]:
    """Return the points to go back to, the oldest first: before any words that took effect.

    Answers and words that joined a turn under way can be gone back to, too.

    They were answered, interrupted, steered or queued; words that were refused, taken back or still
    wait began none. Words that took effect together, such as two that joined one halt, began one turn.
    """
    received = {
        fact.event.input_id: (fact.seq or 0, as_typed(fact.event.text, fact.event.to))
        for fact in facts
        if isinstance(fact.event, e.InputReceived)
    }
    together: list[list[tuple[int, str]]] = []
    for words in _heard(facts):
        if not words.joins:
            together.append([])
        together[-1].append(received[words.id])
    return tuple(
        Turn(run=run, at=min(inputs)[0] - 1, words="\n".join(text for _, text in sorted(inputs)))
        for inputs in together
    )


class _Heard(msgspec.Struct, frozen=True):
    """Words that took effect. `joins`: with those before them. `begins`: they began a turn."""

    id: str
    joins: bool
    begins: bool


def _heard(facts: Iterable[Envelope]) -> Iterator[_Heard]:
    after = Summary()
    for fact in facts:
        before, after = after, summarised(after, fact)
        match fact.event:
            case e.InputDisposed(input_id=id, disposition=disposition) if is_heard(disposition):
                joins = before.is_heard_before(fact.seq or 0)
                yield _Heard(id, joins, after.turns > before.turns)


# --- the history of a run -------------------------------------------------------------------------------


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's turn. `at` (seconds since 1970) is when its first reply was there, or it ended.

    `asked` are the words of the user since the turn before, in a chat the turn before of its own agent.
    `words` counts those of its replies, `end` says how it ended: "" for well, else `interrupted`,
    `cut for new words`, `broken off` or `failed`, and `going on` for the one under way. `took_s` is from
    what it was told to its end. `begins`: it counts as a turn; in a chat what goes on with a turn after
    words that cut it does not.
    """

    agent: str
    branch: str
    state: str
    at: float
    asked: tuple[str, ...] = ()
    text: str = ""
    words: int = 0
    tools: tuple[str, ...] = ()
    usages: tuple[e.Usage, ...] = ()
    end: str = ""
    took_s: float = 0.0
    begins: bool = True


class _Place(msgspec.Struct):
    """A turn being gathered, in one place of the run."""

    state: str = ""
    since: float | None = None
    agent: str = ""
    at: float | None = None
    text: str = ""
    words: int = 0
    tools: list[str] = []
    usages: list[e.Usage] = []


_OF_TURNS = (e.AgentResponded, e.AgentFailed, e.Interrupted, e.ReplyCut)


def history_of(facts: Iterable[Envelope]) -> list[Turned]:
    """Return the turns in the order they ended, one under way last."""
    facts = tuple(facts)
    began = {words.id for words in _heard(facts) if words.begins}
    is_chat = any(
        isinstance(fact.event, e.RunStarted) and fact.event.definition.kind == "chat"
        for fact in facts[:1]
    )
    places: dict[str, _Place] = {}
    asked: list[tuple[str, str]] = []
    found: list[Turned] = []

    def close(branch: str, agent: str, at: float, end: str) -> None:
        place = places.get(branch) or _Place()
        since = at if place.since is None else place.since
        told = [] if is_chat and branch else asked[:]
        found.append(
            Turned(
                agent=agent,
                branch=branch,
                state=place.state,
                at=at if place.at is None else place.at,
                asked=tuple(text for _, text in told),
                text=place.text,
                words=place.words,
                tools=tuple(place.tools),
                usages=tuple(place.usages),
                end=end,
                took_s=max(0.0, at - since),
                begins=not is_chat or any(id in began for id, _ in told),
            )
        )
        del asked[: len(told)]
        places[branch] = _Place(state=place.state, since=at)

    last = 0.0
    for fact in facts:
        event, last = fact.event, fact.at
        if not hasattr(event, "branch"):
            continue
        place = places.setdefault(event.branch, _Place())
        if isinstance(event, _OF_TURNS) and event.usage is not None:
            place.usages.append(event.usage)
        match event:
            case e.InputReceived():
                asked.append((event.input_id, event.text))
                # A chat that waited for hours has not been at work for hours.
                for each in places.values():
                    each.since = fact.at if not each.agent else each.since
            case e.StateTransition():
                place.state = event.target
                place.since = fact.at
            case e.AgentResponded():
                place.agent = event.agent
                place.at = fact.at if place.at is None else place.at
                place.text = event.text or place.text
                place.words += len(event.text.split())
                if event.is_final:
                    close(event.branch, event.agent, fact.at, "")
            case e.ToolCalled() if event.name not in NEVER_RUN:
                place.tools.append(event.name)
            case e.AgentFailed():
                _add(place, event.partial)
                close(event.branch, event.agent, fact.at, "failed")
            case e.ReplyCut():
                _add(place, event.partial)
                cutting = [] if is_chat and event.branch else asked[-1:]
                del asked[len(asked) - len(cutting) :]
                how = "interrupted" if event.recovered else "cut for new words"
                close(event.branch, event.agent, fact.at, "broken off" if event.reason else how)
                asked += cutting
            case e.Interrupted() if event.agent or place.agent:
                _add(place, event.partial)
                # What cut a turn short is what the next one is about.
                is_about = bool(event.text and asked) and asked[-1][1] in (event.text or "")
                cutting = asked[-1:] if is_about else []
                del asked[len(asked) - len(cutting) :]
                close(event.branch, event.agent or place.agent, fact.at, "interrupted")
                asked += cutting
            case _:
                pass
    for branch, place in list(places.items()):
        if place.agent:
            close(branch, place.agent, last, "going on")
    return found


def _add(place: _Place, partial: str) -> None:
    place.text = partial or place.text
    place.words += len(partial.split())


def history_lines(turns: Sequence[Turned], *, width: int, most: int, now: float) -> list[str]:
    """Return the last `most` turns as lines of so many cells, and what all of them used."""
    first = max(0, len(turns) - most)
    number = sum(turn.begins for turn in turns[:first])
    found = [f"{counted(number, 'earlier turn')} left out: /history all shows them."] * (first > 0)
    for turn in turns[first:]:
        number += turn.begins
        found += _lines(f"{number:>3}" if turn.begins else "   ", turn, width, now)
    used = [(turn.agent, usage) for turn in turns for usage in turn.usages]
    total = costs(used).total
    found.append(_clipped(f"{counted(number, 'turn')} · {_used(total)}", width))
    return found


def _lines(number: str, turn: Turned, width: int, now: float) -> list[str]:
    head = f"{number}  "
    indent = " " * len(head)
    found = [_clipped(f"{indent}› {one_line(words)}", width) for words in turn.asked]
    where = " ▌ ".join(part for part in (turn.branch, turn.agent) if part)
    about = [time_of_day(turn.at, now=now), where]
    if turn.state not in ("", "start", turn.branch.rpartition("/")[2]):
        about.append(f"[{turn.state}]")
    if turn.text.strip():
        about.append(f"“{one_line(turn.text)[:200]}”")
    found.append(_clipped(indent + "  ".join(about), width))
    parts = [turn.end] if turn.end else []
    parts += [counted(turn.words, "word")] if turn.words else []
    parts += [tool_names(turn.tools)] if turn.tools else []
    used = costs((turn.agent, usage) for usage in turn.usages).total
    parts += [_used(used)] if used.requests else []
    parts += [span_words(turn.took_s)] if turn.took_s >= 0.05 else []
    found.append(_clipped(f"{indent}{' · '.join(parts)}", width))
    return [head + found[0][len(head) :], *found[1:]]


def _used(cost: Cost) -> str:
    mark = mark_of(cost)
    tokens = f"{mark}{in_short(cost.input_tokens)} in, {mark}{in_short(cost.output_tokens)} out"
    return f"{tokens} · {in_words(cost)}"


def _clipped(line: str, width: int) -> str:
    return clipped(line, max(8, width))


# --- the last turns of a conversation, for a person who comes back to it ---------------------------------


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent said in a turn, and how many tools it called on the way.

    `answered` are the questions it asked then, each with what the person answered.
    """

    agent: str
    text: str
    calls: int = 0
    interrupted: bool = False
    calling: str = ""
    answered: tuple[tuple[str, str], ...] = ()


class PastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the person and what came of them. `words` are "" where nobody asked.

    `joins`: they joined the turn before, and are none of their own.
    """

    words: str
    said: tuple[Said, ...] = ()
    joins: bool = False


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The last turns, `count` that words began. `is_all`: there are none before them.

    `summary`: what stands for still older ones, "" for none.
    """

    turns: tuple[PastTurn, ...]
    count: int
    is_all: bool = True
    summary: str = ""


LINES_LOOKED_AT = 250
"""Of the last lines of the person it is known whether they joined a turn: more than a few turns have."""


def past_of(run: Run, *, most: int) -> Past:
    """Return the last turns of a run's longest conversation, the oldest of them first.

    It is looked through from its end: what they cost does not grow with it.
    """
    messages: Sequence[Message] = max(run.contexts.values(), key=len, default=())
    spoken = (
        m for m in reversed(messages) if m.role != "system" and m.author not in (SUMMARY, NOTE)
    )
    joined = _joined(run)
    turns: list[PastTurn] = []
    said: list[Message] = []
    if (
        run.visit.turn is not None and run.visit.turn.calls
    ):  # it joins the conversation with results
        open_turn = run.visit.turn
        said.append(Message(role="assistant", text=open_turn.text, author=open_turn.agent))
    count = 0
    for message in spoken:
        if message.author != USER:
            said.insert(0, message)
            continue
        turns.insert(0, _past_turn(message.text, said, joins=message.text in joined))
        said, count = [], count + (not turns[0].joins)
        if count == most:
            break
    if said:
        turns.insert(0, _past_turn("", said))
    elif turns and turns[0].joins:
        turns[0] = msgspec.structs.replace(turns[0], joins=False)  # there is none before it to join
    first = next((m for m in messages if m.role != "system"), None)
    return Past(
        turns=tuple(turns),
        count=sum(not turn.joins for turn in turns),
        is_all=next(spoken, None) is None,
        summary=first.text if first is not None and first.author == SUMMARY else "",
    )


def _joined(run: Run) -> frozenset[str]:
    """Return the words that joined a turn under way."""
    return frozenset(
        record.text
        for record in islice(latest(run.inbox.lines), LINES_LOOKED_AT)
        if record.disposition and not begins_turn(record.disposition, answers=False)
    )


def _past_turn(words: str, messages: Iterable[Message], *, joins: bool = False) -> PastTurn:
    said: tuple[Said, ...] = ()
    for message in messages:
        said = _with(said, message)
    return PastTurn(words=words, said=said, joins=joins)


def _with(said: tuple[Said, ...], message: Message) -> tuple[Said, ...]:
    """Return what was said with one message more; what only called tools counts with what follows."""
    answered = tuple(
        (str(call.arguments.get("question", "")), result.text)
        for call, result in zip(message.calls, message.results, strict=False)
        if call.name == REQUEST_USERS_INPUT and result.outcome == "completed"
    )
    calls = len(message.calls) - len(answered)
    last = said[-1] if said else None
    if last and last.agent == message.author and not (last.text.strip() or last.answered):
        calls, said = calls + last.calls, said[:-1]
    new = Said(
        agent=message.author or message.role,
        text=message.text,
        calls=calls,
        interrupted=message.interrupted,
        calling=message.calling,
        answered=answered,
    )
    return (*said, new)
