"""What is remembered of a run between its events, so that the later ones can be told. No IO, no clock.

An interruption is told once all that it stopped has ended, branches that begin together on one line. Of a
run that is taken up what it has cost is known, and not since when it was at work: only that is told.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.costs import Cost, costs, in_words, is_unknown
from midstream.core.notices import FileChanged
from midstream.core.question import Question
from midstream.core.routing import living
from midstream.core.run import InputRecord, Run
from midstream.language.names import Outcome
from midstream.tui.event_lines import (
    RESULT_MARK,
    Block,
    branch_label,
    labelled,
    own_words,
)
from midstream.tui.keymap import called
from midstream.tui.live_region import LiveText, Stream
from midstream.tui.output_tail import MAX_ROWS
from midstream.tui.styled_lines import Line
from midstream.tui.themes import ACCENT, ATTENTION, BOLD, MUTED, OK
from midstream.views.amounts import span_words
from midstream.views.calls_in_words import beginning, outcome_words, tool_names
from midstream.views.lanes import about

# --- what can be shown in full later --------------------------------------------------------------

MAX_CHARS: Final = 400_000
"""Of one text so much is kept here; the journal has all of it."""

_KEPT: Final = 20
_KEPT_CHARS: Final = 2_000_000


class Shown(msgspec.Struct, frozen=True):
    """A text with the line it was told by. `left_out` counts the characters that are not kept."""

    title: str
    text: str
    left_out: int = 0


class Recent:
    """The last few, the newest first when asked for."""

    def __init__(self) -> None:
        self._kept: deque[Shown] = deque()
        self._size = 0
        self._asked = 0

    def add(self, title: str, text: str) -> None:
        """Keep a text, as the newest."""
        if not text.strip():
            return
        shown = Shown(title, text[:MAX_CHARS], max(0, len(text) - MAX_CHARS))
        self._kept.append(shown)
        self._size += len(shown.text)
        while len(self._kept) > _KEPT or (self._size > _KEPT_CHARS and len(self._kept) > 1):
            self._size -= len(self._kept.popleft().text)
        self._asked = 0

    def next(self) -> tuple[Shown, int] | None:
        """Return the newest, asked again the one before it, with how far back it is; None: no more."""
        if self._asked >= len(self._kept):
            self._asked = 0
            return None
        self._asked += 1
        return self._kept[-self._asked], self._asked - 1


class Manner(msgspec.Struct, kw_only=True, eq=False):
    """How all runs are told.

    `with_cards`: open questions are drawn elsewhere, and told when they close. `is_own` says by their id
    whether words were typed here: their echo stands there already. `live` is what of replies and running
    calls is on the screen, which stays when they are cut. `is_verbose`: results and reasoning are told in
    full. `recent` are the last results and reasonings, to be asked for. `has_said_unknown`:
    that no price is known was told once.
    """

    with_cards: bool
    is_own: Callable[[str], bool]
    live: LiveText
    recent: Recent
    is_verbose: bool = False
    has_said_unknown: bool = False


# --- a run ----------------------------------------------------------------------------------------


class Call(msgspec.Struct, kw_only=True):
    """A tool call: as an agent `wished` it, as it was `made`, when, and what it changed so far.

    `was_seen`: what it changes stands with its question. `is_branch`: a branch says how it ended.
    """

    wished: ToolCall | None = None
    made: e.ToolCalled | None = None
    began: float | None = None
    changes: list[FileChanged] = []
    was_seen: bool = False
    is_branch: bool = False


class Place(msgspec.Struct, kw_only=True):
    """The run itself or a branch of it: its state, the item it is `about`, and since when it is at work.

    `branches` are those of each state, and whether they are done. `failure` is what failed there and was
    told, `broken` why a branch of it failed. `epoch` is that of the last halt there, `cut` the agent that
    it cut off and that has not replied since, `is_held`: it waits for words since then. `expired` is the
    number of the question there that nobody answered in time.
    """

    state: str = ""
    about: str = ""
    since: float | None = None
    branches: dict[str, dict[str, bool]] = {}
    failure: str = ""
    broken: str = ""
    epoch: int | None = None
    cut: str = ""
    is_held: bool = False
    expired: int | None = None

    @property
    def here(self) -> dict[str, bool]:
        """Return the branches of its state, and whether they are done."""
        return self.branches.setdefault(self.state, {})


_SHOWN: Final = 8
_ONE: Final = {"begin": "begins", "go on": "goes on"}


class RunMemory(msgspec.Struct, kw_only=True, eq=False):
    """A run. `at` is when (seconds since 1970) the event that is told happened.

    `is_known`: it was seen from its beginning, or as it stood. `past` is the last fact that was told as
    part of the past, `arriving` how it was taken up before it was known what it is. `behind` is what it
    did out of sight, None while it is in sight.
    """

    run: str
    manner: Manner
    at: float = 0.0
    is_chat: bool = False
    is_known: bool = False
    past: int = 0
    arriving: e.RunRecovered | None = None
    behind: deque[Block] | None = None
    places: dict[str, Place] = {}
    calls: dict[str, Call] = {}
    questions: dict[str, Question | e.QuestionAsked] = {}
    inputs: dict[str, InputRecord | e.InputReceived] = {}
    halts: "dict[str, Halt]" = {}
    moved: list[tuple[str, str, str]] = []
    began: float | None = None
    cost: Cost = Cost()

    def recall(self, run: Run) -> None:
        """Remember how a run stands that nobody listened to so far."""
        self.is_known = True
        self.is_chat = self.is_chat or run.is_chat
        self.cost = costs(run.usage.requests).total
        for each in (run, *living(run)):
            path = each.branch.path
            place = self.place(path)
            place.state = each.visit.state
            if place.epoch is None:
                place.epoch, place.is_held = each.halt.epoch, each.visit.phase == "held"
            if path:
                place.about = about(each.input, each.variables)
            if path and not each.branch.call_id:
                self._around(path).here.setdefault(path.rpartition("/")[2], False)
        for name, branch in run.visit.branches.items():
            if not branch.branch.call_id:
                self.place("").here[name] = branch.status == "finished"
        for question in run.inbox.open_questions:
            self.questions.setdefault(question.id, question)
        for record in run.inbox.undelivered:
            self.inputs.setdefault(record.id, record)

    def forget(self) -> None:
        """Forget what a run that has ended will not need any more."""
        self.places, self.calls = {}, {}
        self.questions, self.inputs = {}, {}
        self.began, self.cost = None, Cost()

    def place(self, branch: str) -> Place:
        """Return the run itself or a branch of it."""
        return self.places.setdefault(branch, Place())

    def call(self, id: str) -> Call:
        """Return a tool call."""
        return self.calls.setdefault(id, Call())

    def stream(self, branch: str, agent: str) -> Stream:
        """Return what streams of an agent in a place; see `LiveText.stream`."""
        return self.manner.live.stream(self.run, branch, agent)

    def running(self) -> list[e.ToolCalled]:
        """Return the calls that run, the oldest first."""
        return [call.made for call in self.calls.values() if call.made is not None]

    def failure(self, branch: str) -> str:
        """Return what failed in a place and was told, "" for nothing; it is forgotten then."""
        place = self.place(branch)
        told, place.failure = place.failure, ""
        return told

    def _around(self, branch: str) -> Place:
        return self.place(branch.rpartition("/")[0])

    # --- branches -----------------------------------------------------------------------------

    def label(self, branch: str) -> str:
        """Return what a branch is called on the screen: its path, and the item it is for."""
        known = self.places.get(branch)
        return f"{branch} {known.about}" if known is not None and known.about else branch

    def labelled(self, branch: str, lines: list[Line]) -> list[Block]:
        """Return lines about something in a branch, with what it is called before each."""
        return [*labelled(self.label(branch), lines)]

    def begin(self, fact: e.BranchStarted) -> None:
        """Remember a branch that begins, and nothing of one before it that had its name."""
        path = f"{fact.branch}/{fact.name}".lstrip("/")
        self.places[path] = Place(about=about(fact.input, fact.variables), since=self.at)
        if not fact.call_id:  # Tasks that were handed on end with their calls: nothing joins them.
            self._around(path).here[fact.name] = False
        task = fact.input if fact.call_id and isinstance(fact.input, str) else ""
        self._move(path, beginning(task) if task else "begin")

    def goes_on(self, branch: str) -> None:
        """Remember a branch that goes on where it was halted."""
        self._move(branch, "go on")

    def _move(self, path: str, verb: str) -> None:
        around = path.rpartition("/")[0]
        self.moved.append((around, verb, self.label(path).removeprefix(f"{around}/")))

    def end(self, branch: str, *, is_done: bool) -> float:
        """Remember how a branch ended; return for how many seconds it was at work."""
        here, name = self._around(branch).here, branch.rpartition("/")[2]
        if name in here:
            here[name] = is_done
        place = self.place(branch)
        since, place.since = place.since, None
        return 0.0 if since is None else self.at - since

    def join(self, branch: str) -> list[Line]:
        """Return what the branches of the state of a place came to, nothing if it had but one."""
        place = self.place(branch)
        done = place.branches.pop(place.state, {})
        if len(done) < 2:
            return []
        of, finished = len(done), sum(done.values())
        count = f"{of} branches joined" if finished == of else f"{finished} of {of} branches joined"
        about = (*branch_label(self.label(branch)), (BOLD, place.state), ("", f"  {count}"))
        return [Line(about, "✓ ", OK)]

    def begun(self) -> list[Line]:
        """Return the lines of branches that began, or went on, since the last time."""
        groups: dict[tuple[str, str], list[str]] = {}
        for around, verb, name in self.moved:
            groups.setdefault((around, verb), []).append(name)
        self.moved = []
        found: list[Line] = []
        for (around, verb), names in groups.items():
            left_out = len(names) - _SHOWN
            shown = ", ".join(names[:_SHOWN]) + (f" and {left_out} more" if left_out > 0 else "")
            said = _ONE.get(verb, verb) if len(names) == 1 else verb
            label = branch_label(self.label(around))
            found.append(Line((*label, (BOLD, shown), (MUTED, f"  {said}")), "▶ ", ACCENT))
        return found

    # --- interruptions ------------------------------------------------------------------------

    def halt_around(self, branch: str) -> "Halt | None":
        """Return the halt a branch is in, if there is one."""
        found = (halt for place, halt in self.halts.items() if is_within(branch, place))
        return next(found, None)

    def halt(self, fact: e.Interrupted) -> "Halt":
        """Return the halt a fact belongs to: the one it is within, or a new one."""
        return self.halt_around(fact.branch) or self.halts.setdefault(fact.branch, Halt(fact))

    def over(self, branch: str) -> list[Line]:
        """Tell the halts that something further in this place comes after."""
        return self._halted(
            place for place in self.halts if is_within(branch, place) or is_within(place, branch)
        )

    def idle(self) -> list[Line]:
        """Tell the halts that wait for none of the calls that run."""
        running = [call.branch for call in self.running()] if self.halts else []
        return self._halted(
            place for place in self.halts if not any(is_within(each, place) for each in running)
        )

    def _halted(self, places: Iterable[str]) -> list[Line]:
        found: list[Line] = []
        for branch in [*places]:
            place, halt = self.place(branch), self.halts.pop(branch)
            done, agent = place.here, halt.cuts.get(branch, Cut()).agent
            if agent and agent == place.cut and halt.is_of_nothing_new():
                continue
            place.cut = agent
            finished = [] if all(done.values()) else [name for name in done if done[name]]
            found += halt.lines(self.label(branch), done=finished)
        return found

    # --- what it took and cost ----------------------------------------------------------------

    def count(self, fact: e.AnyFact) -> None:
        """Take note of what a fact says was used, or that a run began then."""
        if isinstance(fact, e.RunStarted):
            self.began = self.at
        if (usage := e.usage_in(fact)) is not None:
            self.cost = self.cost.and_also(usage)

    def spent(self) -> str:
        """Return what a run that ended took and cost, "" where nothing is worth telling."""
        took = 0.0 if self.began is None else self.at - self.began
        parts = [f"after {span_words(took)}"] if took >= 1 else []
        if self.cost.requests and not (is_unknown(self.cost) and self.manner.has_said_unknown):
            parts.append(in_words(self.cost))
            self.manner.has_said_unknown |= is_unknown(self.cost)
        return " · ".join(parts)


# --- interruptions --------------------------------------------------------------------------------


def is_within(branch: str, outer: str) -> bool:
    """Return whether a branch is `outer` or within it."""
    return not outer or branch == outer or branch.startswith(f"{outer}/")


class Cut(msgspec.Struct):
    """What a halt ended in one place: the agent at work there, if any, and tool calls.

    `had_words`: something of the agent's reply had been shown.
    """

    agent: str = ""
    had_words: bool = False
    ended: list[tuple[str, Outcome]] = []

    def words(self) -> list[str]:
        """Return it in words. An agent whose tools say it all is not named."""
        is_named = self.agent and (self.had_words or not self.ended)
        parts = [f"{self.agent} cut off"] if is_named else []
        by_outcome: dict[Outcome, list[str]] = {}
        for name, outcome in self.ended:
            by_outcome.setdefault(outcome, []).append(name)
        for outcome, names in by_outcome.items():
            how = "finished" if outcome == "completed" else outcome_words(outcome)
            parts.append(f"{how}: {tool_names(names)}")
        return parts


class Halt(msgspec.Struct, eq=False):
    """A halt of a run, or of one branch of it: what it has ended so far, by branch.

    `outputs` are the last lines that calls which ended have said, each with its branch.
    """

    fact: e.Interrupted
    cuts: dict[str, Cut] = {}
    outputs: list[tuple[str, list[str]]] = []

    def cut(self, branch: str) -> Cut:
        """Return what it ended in one place."""
        return self.cuts.setdefault(branch, Cut())

    def ends_nothing(self) -> bool:
        """Return whether words made it that had waited for their turn, and nothing was cut off."""
        return self.fact.text is not None and not self._cut_off()

    def is_of_nothing_new(self) -> bool:
        """Return whether words cut off an agent, and nothing else, of whose reply nothing had come yet."""
        is_of_words = self.fact.leads_to == "words" and [*self.cuts] == [self.fact.branch]
        return is_of_words and not any(cut.had_words or cut.ended for cut in self.cuts.values())

    def _cut_off(self) -> bool:
        return any(cut.agent or cut.ended for cut in self.cuts.values())

    def output_lines(self) -> list[Line]:
        """Return the ends of the outputs that were on the screen, which share its rows."""
        shown = self.outputs[-MAX_ROWS:]
        share = MAX_ROWS // max(1, len(shown))
        found = [
            Line(
                (*branch_label(branch), (MUTED, line)),
                RESULT_MARK,
                MUTED,
                RESULT_MARK,
                shrinks=line,
            )
            for branch, lines in shown
            for line in lines[-share:]
        ]
        if len(shown) < len(self.outputs) or any(len(lines) > share for _, lines in shown):
            whose = "its" if len(self.outputs) == 1 else "their"
            found += own_words(f"{called('show_last') or '/last'} shows {whose} output", "note")
        return found

    def lines(self, label: str, *, done: Sequence[str]) -> list[Line]:
        """Return the halt on one line, who was cut off and what became of each tool call, by branch, and
        then what was on the screen; nothing where an error says it all.

        `label` is what the place that was halted is called, `done` the branches that had finished before.
        Where neither an agent nor a tool was at work, what was cut off is the state: its handler, its
        wait, its question.
        """
        fact, cuts = self.fact, self.cuts
        is_trouble = fact.leads_to == "trouble"
        if is_trouble:
            cuts = {path: cut for path, cut in cuts.items() if cut.ended or path != fact.branch}
            if not cuts:
                return []
        elif fact.state and not self._cut_off():
            cuts = {**cuts, fact.branch: Cut(fact.state)}
        parts = cuts[fact.branch].words() if fact.branch in cuts else []
        within: dict[str, list[str]] = {}
        for path, cut in cuts.items():
            if path != fact.branch and (words := ", ".join(cut.words())):
                within.setdefault(words, []).append(path)
        parts += (f"{_named(paths)}: {words.replace(': ', ' ')}" for words, paths in within.items())
        if not is_trouble:
            before = f"finished before: {_named(done)}" if done else ""
            holds = "waiting for your words" if fact.leads_to == "hold" else ""
            parts = ["", *parts, *filter(None, (before, fact.reason, holds))]
        heading = (BOLD, "" if is_trouble else "interrupted")
        told = Line((*branch_label(label), heading, ("", " · ".join(parts))), "⏹ ", ATTENTION)
        return [told, *self.output_lines()]


_NAMED: Final = 4
"""Branches that are named, not counted."""


def _named(branches: Sequence[str]) -> str:
    return ", ".join(branches) if len(branches) <= _NAMED else f"{len(branches)} branches"
