"""What is told of agents: their words, their reasoning, and the tools they call. No IO, no clock.

A call is told with its result, how long it took and what it changed; a reply that was cut, with what
was on the screen of it. So something must be remembered between events, and here is what.
"""

from collections import deque
from typing import Final

import msgspec
from msgspec import json

from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.notices import FileChanged
from midstream.core.question import Question
from midstream.language.errors import with_hint
from midstream.language.names import NEVER_RUN, PROPOSE_PLAN, REQUEST_USERS_INPUT
from midstream.tui.changed_lines import differences, in_figures, with_changes
from midstream.tui.event_lines import (
    Block,
    call_line,
    own_words,
    result_in_full,
    speech,
    structured,
)
from midstream.tui.output_tail import Outputs, last_words
from midstream.tui.run_memory import Branches, Halts, forget
from midstream.tui.styled_lines import Line
from midstream.tui.themes import BOLD, MUTED


class AgentEvents:
    """The agents of all runs, and the calls that no agent makes."""

    def __init__(self, branches: Branches, halts: Halts, outputs: Outputs) -> None:
        """Make one. `outputs` is what of the running calls is on the screen."""
        self.is_verbose = False
        """Whether results and reasoning are told in full."""
        self._branches = branches
        self._halts = halts
        self._outputs = outputs
        self._calls: dict[tuple[str, str], e.ToolCalled] = {}
        self._wished: dict[tuple[str, str], ToolCall] = {}
        self._began: dict[tuple[str, str], float] = {}
        self._changes: dict[tuple[str, str], list[FileChanged]] = {}
        self._looked_at: dict[tuple[str, str], bool] = {}
        self._handed_on: dict[tuple[str, str], bool] = {}
        self._shown: dict[tuple[str, str, str], list[str]] = {}
        self._thoughts: dict[tuple[str, str, str], str] = {}
        self._failures: dict[tuple[str, str], str] = {}
        self._recent = Recent()

    def forget(self, run: str) -> None:
        """Forget what a run that has ended will not need any more."""
        forget(run, self._calls, self._wished, self._began, self._changes, self._looked_at)
        forget(run, self._handed_on)
        forget(run, self._shown, self._thoughts, self._failures)

    def last_in_full(self) -> list[Block]:
        """Return the last tool result or reasoning in full; asked again, the one before it."""
        found = self._recent.next()
        if found is None:
            self._recent.again()
            return [*own_words("There is no earlier tool result or reasoning here.", "note")]
        shown, back = found
        which = "" if not back else "  (the one before)" if back == 1 else f"  ({back} before)"
        heading = Line(((BOLD, shown.title), (MUTED, which)), "┊ ", MUTED)
        more = f"+{shown.left_out:,} more characters, kept in the journal"
        end = own_words(more, "note") if shown.left_out else []
        return [heading, result_in_full(shown.text), *end]

    # --- words ------------------------------------------------------------------------------

    def streamed(self, run: str, branch: str, agent: str, text: str) -> None:
        """Remember words that were shown as they came, in case they are cut."""
        self._shown.setdefault((run, branch, agent), []).append(text)

    def thought(self, run: str, branch: str, agent: str, text: str) -> None:
        """Remember a piece of a model's reasoning, which may be asked for."""
        key = (run, branch, agent)
        known = self._thoughts.get(key, "")
        if len(known) < MAX_CHARS:
            self._thoughts[key] = known + text

    def responded(self, run: str, fact: e.AgentResponded) -> list[Block]:
        """Tell a reply."""
        self._shown.pop((run, fact.branch, fact.agent), None)
        found = self._thought_out(run, fact.branch, fact.agent)
        label = self._branches.label(run, fact.branch)
        if fact.text.strip():
            found += speech(fact.agent, fact.text, branch=label)
        if not fact.is_final:
            self._wished.update(((run, call.id), call) for call in fact.calls)
        for call in fact.calls if fact.is_final else ():
            # Nothing runs: the call is the reply, and what it says is its arguments.
            found.append(structured(fact.agent, call.arguments, branch=label))
            text = json.format(json.encode(call.arguments)).decode()
            self._recent.add(f"{fact.agent}: {call.name}", text)
        if fact.problem:
            words = own_words(f"{fact.agent} is asked again: {fact.problem}", "note")
            found += self._branches.labelled(run, fact.branch, words)
        return found

    def failed(self, run: str, fact: e.AgentFailed) -> list[Block]:
        """Tell that an agent failed, and what it had said by then."""
        self._thought_out(run, fact.branch, fact.agent)
        self._failures[run, fact.branch] = fact.error
        text = with_hint(f"{fact.agent} failed: {fact.error}", fact.hint)
        said = self.cut(run, fact.branch, fact.agent, fact.partial)
        return [*said, *self._branches.labelled(run, fact.branch, own_words(text, "error"))]

    def cut(self, run: str, branch: str, agent: str, partial: str) -> list[Block]:
        """Tell what an agent had said when it was interrupted."""
        shown = "".join(self._shown.pop((run, branch, agent), ()))
        # What was on the screen stays in view, even if the run knew of less of it.
        kept = shown if len(shown) > len(partial) else partial
        if not kept.strip():
            return []
        label = self._branches.label(run, branch)
        return speech(agent, kept, branch=label, is_interrupted=True)

    def failure(self, run: str, branch: str) -> str:
        """Return what failed in a place and was told, "" for nothing; it is forgotten then."""
        return self._failures.pop((run, branch), "")

    def _thought_out(self, run: str, branch: str, agent: str) -> list[Block]:
        """Keep the reasoning before a reply, and return it where all is told."""
        text = self._thoughts.pop((run, branch, agent), "")
        if not text.strip():
            return []
        label = self._branches.label(run, branch)
        title = f"{label} ▌ {agent}: reasoning" if label else f"{agent}: reasoning"
        self._recent.add(title, text)
        if not self.is_verbose:
            return []
        return [Line(((MUTED, title),), "┊ ", MUTED), result_in_full(text[:MAX_CHARS])]

    # --- tools ------------------------------------------------------------------------------

    def called(self, run: str, fact: e.ToolCalled, at: float) -> None:
        """Remember a call that begins."""
        self._calls[run, fact.call_id] = fact
        self._began[run, fact.call_id] = at

    def handed_on(self, run: str, fact: e.BranchStarted) -> None:
        """Remember a call that is a branch."""
        if fact.call_id:
            self._handed_on[run, fact.call_id] = True

    def asked(self, run: str, fact: e.QuestionAsked | Question, *, stays: bool) -> None:
        """Remember a call that was asked about; where the question `stays`, so does what it changes."""
        self._looked_at[run, fact.call_id] = fact.kind == "approval" and stays
        # What was asked about is shown with its question, and need not be named again.
        self._wished.pop((run, fact.call_id), None)

    def changed(self, run: str, change: FileChanged) -> None:
        """Remember what a call did to a file."""
        self._changes.setdefault((run, change.call_id), []).append(change)

    def calls(self) -> list[tuple[str, e.ToolCalled]]:
        """Return the calls that run, each with its run, the oldest first."""
        return [(run, call) for (run, _), call in self._calls.items()]

    def returned(self, run: str, fact: e.ToolReturned, at: float) -> list[Block]:
        """Tell a call with its result; one that was halted is told with what halted it."""
        call = self._calls.pop((run, fact.call_id), None)
        took_s = at - self._began.pop((run, fact.call_id), at)
        wished = self._wished.pop((run, fact.call_id), None)
        changes = self._changes.pop((run, fact.call_id), [])
        was_seen = self._looked_at.pop((run, fact.call_id), False)
        line = call_line(*in_figures(fact, call or wished, changes), took_s=took_s)
        halt = self._halts.covering(run, fact.branch)
        said = self._outputs.lines(run, fact.call_id) if halt is not None else []
        if fact.name != REQUEST_USERS_INPUT:
            title = "".join(text for _, text in line.fragments)
            # The result of a call that was given up does not have what was on the screen.
            is_lost = bool(said) and said[-1].strip() not in fact.result
            result = "\n".join((fact.result, *said)) if is_lost else fact.result
            self._recent.add(title, with_changes(result, changes))
        if halt is not None:
            if fact.name not in NEVER_RUN:
                halt.ended(fact.branch, fact.name, fact.outcome)
                halt.said(fact.branch, said)
            return []
        if fact.name in (REQUEST_USERS_INPUT, PROPOSE_PLAN) and fact.outcome == "completed":
            return []
        if self._handed_on.pop((run, fact.call_id), False):
            return []  # Its branch has said how it ended.
        if call is not None and not call.agent and fact.outcome != "completed":
            # A state's own call: what comes of it is told next, and need not say this again.
            self._failures[run, fact.branch] = fact.result
        found = self._branches.labelled(run, fact.branch, [line])
        if changes and not was_seen:
            found += differences(changes, is_whole=self.is_verbose)
        elif self.is_verbose and fact.result.strip():
            found.append(result_in_full(fact.result[:MAX_CHARS]))
        else:
            found += last_words(fact)
        noted = own_words(fact.note, "note") if fact.note else []
        return found + self._branches.labelled(run, fact.branch, noted)


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
            return None
        self._asked += 1
        return self._kept[-self._asked], self._asked - 1

    def again(self) -> None:
        """Begin with the newest again."""
        self._asked = 0
