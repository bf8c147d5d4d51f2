"""The live region: what is on its way and not yet scrollback, only its tail. No IO.

Of a run's branches one streams at a time, the first that spoke; the others have a line each that
says what they do, and their words are shown when they are whole. So no two are ever mixed. Of runs
in the background nothing streams: they have their line.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.conversation import tokens_in
from midstream.core.events import ToolCalled
from midstream.core.notices import AgentThinking, AnyNotice, TextDelta, ThinkingDelta, ToolProgress
from midstream.tui.event_lines import SPEAKER, branch_label, speaker, speech_style
from midstream.tui.output_tail import Outputs
from midstream.tui.styled_lines import Fragment, Line, Row, one_row, rows
from midstream.tui.themes import ACCENT, ATTENTION, MUTED
from midstream.views.amounts import duration, time_of_day, token_words
from midstream.views.calls_in_words import call_words
from midstream.views.cells import clipped, width_of
from midstream.views.lanes import Lane

_DOING_CHARS = 400
_MAX_THOUGHT = 400_000
_LEAST_DOING = 20
"""Cells for what somebody does, which counts more than the tokens it took."""

_LEAST_ESTIMATE = 50
"""Tokens from which an estimate says anything."""

_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Joiners and variation selectors. The sanitizer has let them pass only where they belong."""

_Key: TypeAlias = tuple[str, str, str]
"""A run, a branch of it ("": none), and an agent at work there."""


class Stream(msgspec.Struct, kw_only=True, eq=False):
    """What an agent says and has not said to its end: its `words` in pieces, and all it `thought` before.

    `doing` is the end of its reasoning, and what its request is doing; `calling` the tool it begins to ask
    for, "" for none. `written` counts the characters of its words and its reasoning.
    """

    words: list[str] = []
    thought: str = ""
    doing: str = ""
    calling: str = ""
    written: int = 0


class LiveText:
    """What streams, by who says it, in the order they began to speak."""

    def __init__(self) -> None:
        self.streams: dict[_Key, Stream] = {}
        self.outputs = Outputs()
        """What running commands say: of one that is halted its last lines stay."""
        self._since: dict[tuple[str, str], tuple[str, float]] = {}

    def hears(self, run: str, event: e.AnyFact | AnyNotice) -> bool:
        """Take a piece of what streams; return whether the event is one."""
        if isinstance(event, ToolProgress):
            self.outputs.add(run, event.call_id, event.text)
            return True
        if not isinstance(event, TextDelta | ThinkingDelta | AgentThinking):
            return False
        key = (run, event.branch, event.agent)
        stream = self.streams.setdefault(key, Stream())
        match event:
            case TextDelta():
                if not stream.words:
                    # Who speaks is heard in the order of the first words, whoever thought first.
                    self.streams[key] = self.streams.pop(key)
                stream.words.append(event.text)
                stream.doing = stream.calling = ""
                stream.written += len(event.text)
            case ThinkingDelta():
                stream.thought += event.text[: _MAX_THOUGHT - len(stream.thought)]
                stream.doing = (stream.doing + event.text)[-_DOING_CHARS:]
                stream.written += len(event.text)
            case AgentThinking():
                stream.calling = event.calling
                if event.status:
                    stream.doing = f"{stream.doing}{event.status}\n"[-_DOING_CHARS:]
        return True

    def stream(self, run: str, branch: str, agent: str) -> Stream:
        """Return what streams of an agent, an empty one where nothing does."""
        return self.streams.get((run, branch, agent)) or Stream()

    def forget(self, run: str, event: e.AnyFact | AnyNotice) -> None:
        """Forget what an event ends, once that stands in the scrollback."""
        match event:
            case (
                e.AgentResponded()
                | e.AgentFailed()
                | e.ReplyCut()
                | e.Interrupted()
                | e.CompactionEnded()
                | e.ConversationCompacted()
            ):
                self.streams.pop((run, event.branch, event.agent), None)
            case e.ToolReturned():
                self.outputs.drop_call(run, event.call_id)
            case e.BranchFinished() | e.BranchFailed() | e.BranchStopped():
                for key in [key for key in self.streams if key[:2] == (run, event.branch)]:
                    del self.streams[key]
            case e.RunFinished() | e.RunFailed() | e.RunStopped():
                for key in [key for key in self.streams if key[0] == run]:
                    del self.streams[key]
                self.outputs.drop_run(run)
            case _:
                pass

    def shown(
        self,
        calls: Sequence[tuple[str, ToolCalled]],
        *,
        height: int,
        width: int,
        lanes: Sequence[Lane] = (),
        now: float = 0.0,
        run: str = "",
        progress: str = "",
    ) -> list[Row]:
        """Return at most `height` rows: what streams, then the running tools and who is at work.

        Joined emoji stand side by side: drawn cell by cell, a joiner would be a cell of its own.

        Args:
            calls: the running tool calls, each with its run.
            height: how many rows there are.
            width: how wide they are.
            lanes: who is at work: the branches of the active run or itself, and other runs.
            now: a time in seconds that only grows, to tell how long each does what it does.
            run: the active run, the only one whose words stream; "": all do.
            progress: how far it is, on a row of its own where there is room.
        """
        since = self._timed(lanes, now)
        head: list[Row] = []
        is_heard = bool(self._speakers(run, lanes))
        if progress and lanes and _has_room(len(lanes), height, is_heard=is_heard):
            head = [one_row([("", progress)], width - 1, "▶ ", ACCENT)]
        found = [*self._rows(calls, lanes, height - len(head), width, now, since, run)]
        # Above the lines of those at work, below what is said.
        place = next((n for n, row in enumerate(found) if row[0][1] in ("⋯ ", "? ")), len(found))
        return [
            [(style, _JOINERS.sub("", text)) for style, text in row]
            for row in (*found[:place], *head, *found[place:])
        ]

    def _rows(
        self,
        calls: Sequence[tuple[str, ToolCalled]],
        lanes: Sequence[Lane],
        height: int,
        width: int,
        now: float,
        since: dict[tuple[str, str], float],
        run: str,
    ) -> Sequence[Row]:
        if height <= 0:
            return []
        speakers = self._speakers(run, lanes)
        stalled = {lane.run for lane in lanes if lane.is_stalled}
        calls = [(of, call) for of, call in calls if of not in stalled]
        paths = self._with_own_calls(lanes, calls)
        # Where nobody speaks there is room for what a command says.
        in_front = [(of, call) for of, call in calls if _is_in_front(of, run, lanes)]
        loud = self.outputs.loudest(in_front) if not speakers and height > 3 else None
        own = [(of, call) for of, call in in_front if (of, call.branch) not in paths]
        most = max(1, height // 2) if speakers else height
        # A hundred may be at work, in every frame: only what there is room for is laid out.
        left_out, has_lanes = len(own) + len(lanes) - most, bool(lanes)
        if left_out > 0:
            own = own[: most - 1] if lanes else own[-most:]
            # Who waits for the person has a card.
            lanes = sorted(lanes, key=lambda lane: lane.is_parked)[: most - 1 - len(own)]
        below = [self._call_row(of, call, width, loud) for of, call in own]
        below += [
            _lane_row(
                lane,
                self._doing(lane, calls if (lane.run, lane.path) in paths else (), loud),
                width,
                took_s=now - since[lane.run, lane.path],
                streamed=self._written(lane),
            )
            for lane in lanes
        ]
        if left_out > 0 and has_lanes:
            more = (MUTED, f"+{left_out + 1} more at work")
            below.append(one_row([more], width, "  ", MUTED))
        room = height - len(below)
        if loud is not None and room > 0:
            of = next(of for of, call in calls if call is loud)
            return [*self.outputs.rows(of, loud, height=room, width=width), *below]
        if not speakers or room <= 0:
            return below
        share = max(1, room // len(speakers))
        items = {(lane.run, lane.path): lane.about for lane in lanes}
        found: list[Row] = []
        for key in speakers[-room:]:
            found += self._speaker_rows(key, items.get(key[:2], ""), share, width)
        return [*found[-room:], *below]

    def _speakers(self, active: str, lanes: Sequence[Lane]) -> list[_Key]:
        """Return who is heard: of a run's branches the first that began to speak, and still does."""
        found: dict[tuple[str, str], _Key] = {}
        spoken = [key for key, stream in self.streams.items() if stream.words]
        for key in (*spoken, *(key for key, stream in self.streams.items() if stream.doing)):
            run, branch, agent = key
            if _is_in_front(run, active, lanes):
                found.setdefault((run, "" if branch else agent), key)
        return list(found.values())

    def _with_own_calls(
        self, lanes: Sequence[Lane], calls: Sequence[tuple[str, ToolCalled]]
    ) -> set[tuple[str, str]]:
        """Return the lanes whose calls stand in their own row: of several of a run's own each has one."""
        found = {(lane.run, lane.path) for lane in lanes}
        counts = Counter((run, call.branch) for run, call in calls)
        return {(run, path) for run, path in found if path or counts[run, path] < 2}

    def _written(self, lane: Lane) -> int:
        """Return the characters that stream in a lane, which nobody has counted as tokens yet."""
        if lane.label:
            return 0
        return self.stream(lane.run, lane.path, lane.agent).written

    def _timed(self, lanes: Sequence[Lane], now: float) -> dict[tuple[str, str], float]:
        """Return since when each does what it does, by its run and path."""
        since: dict[tuple[str, str], tuple[str, float]] = {}
        for lane in lanes:
            said = f"{lane.step} {lane.state}: {lane.doing}"
            known = self._since.get((lane.run, lane.path))
            is_same = known is not None and known[0] == said
            since[lane.run, lane.path] = known if known is not None and is_same else (said, now)
        self._since = since
        return {key: at for key, (_, at) in since.items()}

    def _doing(
        self, lane: Lane, calls: Sequence[tuple[str, ToolCalled]], loud: ToolCalled | None
    ) -> str:
        if lane.is_stalled:
            return lane.doing
        open_here = [call for run, call in calls if (run, call.branch) == (lane.run, lane.path)]
        if open_here:
            call = open_here[-1]
            progress = "" if call is loud else self.outputs.last_line(lane.run, call.call_id)
            what = clipped(" ".join(call_words(call.name, call.arguments).split()), 40)
            more = f" (+{len(open_here) - 1})" if len(open_here) > 1 else ""
            return " ".join(f"{what}{more} {progress}".split())
        stream = self.stream(lane.run, lane.path, lane.agent)
        if stream.calling:
            return f"{lane.agent} is writing a call of {stream.calling}"
        if stream.words:
            return f"{lane.agent} is writing"
        if lane.until is not None:
            return f"{lane.doing} until {time_of_day(lane.until)}"
        return lane.doing

    def _speaker_rows(self, key: _Key, item: str, height: int, width: int) -> list[Row]:
        _, branch, agent = key
        stream, seen = self.streams[key], width * (height + 1)
        text, text_style = "".join(stream.words[-seen:]), ""
        if not stream.words:
            text, text_style = stream.doing, MUTED
        # On a single row there is none to say who speaks: the mark stands before the words.
        mark = SPEAKER if height < 2 else ""
        style = speech_style(agent, branch)
        # Only so much of the end is laid out as can be seen at all.
        # A joiner at its end waits for what it joins, and would show as an escape until that comes.
        lines = text.rstrip("\n\u200d")[-seen:].split("\n")[-height:]
        laid = [
            row
            for line in lines
            for row in rows(Line(((text_style, line),), mark, style, mark), width)
        ]
        heading = rows(speaker(agent, f"{branch} {item}".rstrip()), width)[:1]
        return laid[-height:] if height < 2 else [*heading, *laid[-(height - 1) :]]

    def _call_row(self, run: str, call: ToolCalled, width: int, loud: ToolCalled | None) -> Row:
        progress = "" if call is loud else self.outputs.last_line(run, call.call_id)
        room = max(4, width - 3)
        # What it says now matters more than the end of a long command.
        said = clipped(f" {' '.join(progress.split())}" if progress else "", room // 2)
        what = clipped(
            " ".join(call_words(call.name, call.arguments).split()), room - width_of(said)
        )
        named = branch_label(call.branch)
        return rows(Line((*named, (MUTED, what + said)), "⋯ ", MUTED), width)[0]


def _is_in_front(run: str, active: str, lanes: Sequence[Lane]) -> bool:
    """Return whether a run streams: one in the background has a line for all of it."""
    return run == active or not (active or any(lane.run == run and lane.label for lane in lanes))


def _has_room(lanes: int, height: int, *, is_heard: bool) -> bool:
    """Return whether a row more costs nobody at work theirs; where some have none, it is worth one."""
    before, with_it = (height // 2, (height - 1) // 2) if is_heard else (height, height - 1)
    return height > 2 and (lanes <= with_it or lanes > before)


def _lane_row(lane: Lane, doing: str, width: int, *, took_s: float, streamed: int) -> Row:
    """Return who is at work on one row: the name, the item, the state, what it does, how long, and
    the tokens written (about so many while they stream).
    """
    named: list[Fragment] = [*branch_label(lane.path or lane.label)]
    took = f" · {duration(took_s)}" if took_s >= 1 else ""
    tokens = lane.tokens + tokens_in(streamed)
    is_shown = tokens >= (_LEAST_ESTIMATE if streamed else 1)
    used = f" · {'~' if streamed else ''}{token_words(tokens)}" if is_shown else ""
    names = sum(width_of(text) for _, text in named)
    words = " ".join(doing.split())
    if width - 3 - names - width_of(took + used) >= min(_LEAST_DOING, width_of(words)):
        took += used
    room = max(4, width - 3 - sum(width_of(text) for _, text in named) - width_of(took))
    before = [lane.about] if lane.about else []
    if lane.state not in ("", lane.path.rpartition("/")[2], words.partition(" ")[0]):
        before.append(lane.state)
    # Where there is no room for all of it, what it does counts more than where.
    while before and width_of(" · ".join((*before, words))) > room:
        before.pop()
    what = clipped(" · ".join((*before, words)), room)
    mark, style = ("? ", ATTENTION) if lane.is_parked else ("⋯ ", MUTED)
    return rows(Line((*named, (MUTED, what + took)), mark, style), width)[0]
