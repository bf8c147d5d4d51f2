"""What of a run's events an editor is shown, as updates of its session.

Facts and transient events of one run come in order. What has streamed is not said again when the reply is
there whole; what a reader missed is made up for then. A branch, or a task that was handed on, is a tool
call with its own text. Foreign words pass the one sanitizer, and stand in fences where an editor would
take them for Markdown of ours.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from midstream.agents import acp_messages as m
from midstream.core import events as e
from midstream.core import notices as n
from midstream.core.call_notes import without_change
from midstream.core.conversation import cut_words
from midstream.core.todo import LIST_TOOL, TodoItem
from midstream.language.errors import WorldTrouble
from midstream.language.names import DELEGATE, RUN_WORKFLOW, Json
from midstream.safety.sanitize import sanitized
from midstream.views.amounts import in_short
from midstream.views.calls_in_words import call_words, fields_words, question_heading
from midstream.views.transcript import fenced

MAX_RESULT: Final = 20_000
"""Characters of a result, or of a branch's text, that an editor is sent; the run has all of it."""
MAX_FILE: Final = 500_000
"""Bytes of a file whose change is sent with both texts."""
SOON_S: Final = 0.25
"""What a tool, or a branch, says as it works is sent as often, since each time all of it is."""

KINDS: Final[dict[str, m.ToolKind]] = {
    **dict.fromkeys(("read_files", "read_image", "list_directory"), "read"),
    **dict.fromkeys(("find_files", "exact_search", "measure_code", "explain_codebase"), "search"),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("web_fetch", "web_search"), "fetch"),
    **dict.fromkeys(("propose_plan", LIST_TOOL, DELEGATE, RUN_WORKFLOW), "think"),
    "execute_terminal": "execute",
}

Contents = Callable[[str], Awaitable[bytes]]


def text(words: str) -> m.TextContent:
    """Return words as content."""
    return m.TextContent(text=words)


def block(words: str) -> m.Content:
    """Return foreign words as content of a tool call: as they are, not as Markdown."""
    shown = sanitized(words)
    left_out = len(shown) - MAX_RESULT
    if left_out > 0:
        shown = f"{shown[:MAX_RESULT]}\n[+{left_out:,} more characters]"
    return m.Content(content=text(fenced(shown)))


def plan_of(items: tuple[TodoItem, ...]) -> m.Plan:
    """Return the todo list as a plan."""
    status: dict[str, Json] = {"pending": "pending", "doing": "in_progress", "done": "completed"}
    entries = [
        {"content": sanitized(item.text), "status": status[item.status], "priority": "medium"}
        for item in items
    ]
    return m.Plan(entries=msgspec.convert(entries, tuple[m.PlanEntry, ...]))


def asked_in_words(question: e.QuestionAsked) -> str:
    """Return a question as Markdown: who asks, what, and the numbered choices."""
    lines = [f"**{sanitized(question_heading(question))}:** {sanitized(question.text)}"]
    lines += [f"{number}. {sanitized(each)}" for number, each in enumerate(question.choices, 1)]
    return "\n".join(lines)


class _Call(msgspec.Struct):
    """A tool call, or a branch, as far as it was shown."""

    output: str = ""
    diffs: dict[str, m.Diff] = {}
    sent_at: float = 0.0


class Updates:
    """Turns the events of one run into updates.

    Args:
        workspace: the folder that paths of tools are from.
        contents: returns what a file held, by its key.
        is_ours: whether words came from this session: its editor shows them already.
    """

    def __init__(
        self,
        workspace: Path,
        contents: Contents,
        *,
        is_ours: Callable[[str], bool],
    ) -> None:
        self.names_agents = False
        """Whether several agents speak, so that each is named."""
        self._workspace = workspace
        self._contents = contents
        self._is_ours = is_ours
        self._streamed: dict[tuple[str, str], str] = {}
        self._calls: dict[str, _Call] = {}
        self._branches: dict[str, str] = {}
        self._message = 0
        self._speaker: tuple[str, str] | None = None
        self._follows_text = False

    async def of(self, envelope: n.Envelope) -> list[m.SessionUpdate]:
        """Return what one event is in the editor."""
        event = envelope.event
        if isinstance(event, e.FileWritten):
            return await self._written(event)
        made = [*self._of(event, envelope.seq or 0)]
        for update in made:
            self._follows_text = isinstance(update, m.AgentMessageChunk)
        return made

    def _of(self, event: e.AnyFact | n.AnyNotice, seq: int) -> Iterator[m.SessionUpdate]:
        match event:
            case n.TextDelta():
                key = event.branch, event.agent
                self._streamed[key] = self._streamed.get(key, "") + event.text
                yield from self._said(event.branch, event.agent, event.text)
            case n.ThinkingDelta(branch=""):
                said = text(sanitized(event.text))
                yield m.AgentThoughtChunk(content=said, message_id=f"t{self._message}")
            case n.ToolProgress():
                yield from self._grows(event.call_id, event.text)
            case e.InputReceived():
                self._speaker = None
                self._follows_text = False
                if not self._is_ours(event.input_id):
                    yield _heard(event.input_id, event.text)
            case e.RunStarted(input=str(words)) if words and not self._is_ours(""):
                yield _heard("input", words)
            case e.AgentResponded():
                final = event.calls if event.is_final else ()
                fields = "".join(f"\n\n{fields_words(call.arguments)}" for call in final)
                yield from self._whole(event.branch, event.agent, event.text, fields)
            case e.Interrupted() | e.ReplyCut():
                is_said = bool(event.partial or event.calling)
                mark = f"\n\n*[{cut_words(sanitized(event.calling))}]*" if is_said else ""
                yield from self._whole(event.branch, event.agent, event.partial, mark)
            case e.AgentFailed():
                why = f"\n\n*{_line(event.error, event.hint)}*"
                yield from self._whole(event.branch, event.agent, event.partial, why)
            case e.ToolCalled(name=name) if name != LIST_TOOL:
                yield self._called(event)
            case e.ToolReturned(name=name) if name != LIST_TOOL:
                yield self._returned(event)
            case e.BranchStarted():
                yield from self._branch_began(event, seq)
            case e.BranchFinished():
                yield from self._branch_ended(event.branch, "completed")
            case e.BranchFailed():
                yield from self._branch_ended(
                    event.branch, "failed", _line(event.error, event.hint)
                )
            case e.BranchStopped():
                yield from self._branch_ended(event.branch, "failed", f"Stopped: {event.reason}.")
            case e.WorkflowOutput():
                yield self._told(sanitized(event.text))
            case e.StateFailed():
                then = "it is tried again" if event.then == "retry" else "the workflow goes on"
                yield self._told(f"*{_line(event.error, event.hint)} ({then})*")
            case e.ConversationCompacted():
                tokens = f"{in_short(event.tokens_before)} to {in_short(event.tokens_after)}"
                yield self._told(f"*Older turns were summarised: {tokens} tokens.*")
            case e.CompactionEnded():
                yield self._told(f"*No summary was made: {_line(event.reason, event.hint)}*")
            case e.RunFailed():
                yield self._told(f"*Failed: {_line(event.error, event.hint)}*")
            case e.RunStopped():
                yield self._told(f"*Stopped: {sanitized(event.reason)}*")
            case e.RunSuspended():
                yield self._told(f"*Suspended ({event.reason}): your next words let it go on.*")
            case n.JournalStalled():
                yield self._told(f"*It waits: {_line(event.error, event.hint)}*")
            case n.JournalWorks():
                yield self._told("*The journal works again: it goes on.*")
            case n.RunTaken():
                yield self._told("*It goes on in another process.*")
            case e.RunRenamed():
                yield m.SessionInfoUpdate(title=sanitized(event.name) or None)

    # --- words ------------------------------------------------------------------------------

    def told(self, words: str) -> m.AgentMessageChunk:
        """Return words of midstream's own, as a paragraph."""
        made = self._told(words)
        self._follows_text = True
        return made

    def _told(self, words: str) -> m.AgentMessageChunk:
        before = "\n\n" if self._follows_text else ""
        self._speaker = None
        self._message += 1
        return self._chunk(f"{before}{words}")

    def _chunk(self, words: str) -> m.AgentMessageChunk:
        return m.AgentMessageChunk(content=text(words), message_id=f"m{self._message}")

    def _said(self, branch: str, agent: str, words: str) -> Iterator[m.SessionUpdate]:
        if not words:
            return
        if branch:
            yield from self._grows(self._branches.get(branch, ""), words)
            return
        before = ""
        if self._speaker != (branch, agent):
            self._message += 1
            before = "\n\n" if self._follows_text else ""
            if self.names_agents:
                before += f"**{sanitized(agent)}:** "
        self._speaker = branch, agent
        yield self._chunk(before + sanitized(words))

    def _whole(
        self, branch: str, agent: str, words: str, end: str = ""
    ) -> Iterator[m.SessionUpdate]:
        """Say what of a reply was not shown yet. The next words begin a new message."""
        shown = self._streamed.pop((branch, agent), "")
        if words.startswith(shown):
            rest = words[len(shown) :]
        else:
            # Some of it was missed, or it was redacted once it was whole.
            rest = "" if shown.strip().startswith(words.strip()) else f"\n\n{words}"
        yield from self._said(branch, agent, rest + end)
        if branch:
            yield from self._grows(self._branches.get(branch, ""), "\n\n", is_due=True)
        else:
            self._speaker = None

    # --- tool calls -------------------------------------------------------------------------

    def call_of(
        self, id: str, name: str, arguments: dict[str, Json], branch: str = ""
    ) -> m.ToolCall:
        """Return a call as it is shown when it begins."""
        where = f"{branch} ▌ " if branch else ""
        named = [arguments.get("path"), *_list(arguments.get("paths"))]
        places = [
            self._workspace / path.partition(":")[0] for path in named if isinstance(path, str)
        ]
        return m.ToolCall(
            tool_call_id=id,
            title=sanitized(where + call_words(name, arguments)),
            name=name,
            kind=KINDS.get(name, "other"),
            status="in_progress",
            locations=tuple(m.ToolCallLocation(path=sanitized(str(place))) for place in places),
            raw_input=arguments,
        )

    def _called(self, event: e.ToolCalled) -> m.ToolCall:
        self._calls[event.call_id] = _Call()
        self._speaker = None
        return self.call_of(event.call_id, event.name, event.arguments, event.branch)

    def _returned(self, event: e.ToolReturned) -> m.ToolCallUpdated:
        call = self._calls.pop(event.call_id, None) or _Call()
        says_itself = bool(call.output.strip()) and event.name in (DELEGATE, RUN_WORKFLOW)
        told = _says(call.output) if says_itself else block(without_change(event.result))
        notes = (block(event.note),) if event.note else ()
        is_done = event.outcome == "completed"
        return m.ToolCallUpdated(
            tool_call_id=event.call_id,
            status="completed" if is_done else "failed",
            content=(*call.diffs.values(), told, *notes),
            raw_output={"outcome": event.outcome},
        )

    async def _written(self, event: e.FileWritten) -> list[m.SessionUpdate]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        before, after = await self._held(event.before), await self._held(event.after)
        if (before is None and event.before is not None) or after is None:
            return []  # it is not kept, large, or no text: the result says what was done
        known = call.diffs.get(event.path)
        old = before if known is None else known.old_text
        call.diffs = {
            **call.diffs,
            event.path: m.Diff(path=event.path, old_text=old, new_text=after),
        }
        content = tuple(call.diffs.values())
        return [m.ToolCallUpdated(tool_call_id=event.call_id, content=content)]

    async def _held(self, key: str | None) -> str | None:
        if key is None:
            return None
        try:
            data = await self._contents(key)
            return data.decode() if len(data) <= MAX_FILE else None
        except (WorldTrouble, UnicodeDecodeError):
            return None

    def _grows(self, id: str, words: str, *, is_due: bool = False) -> Iterator[m.SessionUpdate]:
        """Add to what a call has said so far; it is sent now and then."""
        call = self._calls.get(id)
        if call is None:
            return
        call.output = (call.output + words)[-MAX_RESULT:]
        now = time.monotonic()
        if is_due or now - call.sent_at >= SOON_S:
            call.sent_at = now
            is_branch = id in self._branches.values()
            said = _says(call.output) if is_branch else block(call.output)
            yield m.ToolCallUpdated(tool_call_id=id, content=(*call.diffs.values(), said))

    # --- branches ---------------------------------------------------------------------------

    def _branch_began(self, event: e.BranchStarted, seq: int) -> Iterator[m.SessionUpdate]:
        path = f"{event.branch}/{event.name}" if event.branch else event.name
        if event.call_id:
            self._branches[path] = event.call_id  # the call that hands the task on shows it
            self._calls.setdefault(event.call_id, _Call())
            return
        id = f"branch-{seq}-{path}"
        self._branches[path] = id
        self._calls[id] = _Call()
        self._speaker = None
        title = sanitized(f"branch {path}")
        yield m.ToolCall(tool_call_id=id, title=title, kind="think", status="in_progress")

    def _branch_ended(
        self, path: str, status: m.ToolCallStatus, why: str = ""
    ) -> Iterator[m.SessionUpdate]:
        id = self._branches.pop(path, "")
        if not id.startswith("branch-"):
            return
        call = self._calls.pop(id, None) or _Call()
        said = tuple(_says(each) for each in (call.output, why) if each.strip())
        yield m.ToolCallUpdated(tool_call_id=id, status=status, content=said)


def _heard(id: str, words: str) -> m.UserMessageChunk:
    return m.UserMessageChunk(content=text(sanitized(words)), message_id=id)


def _says(words: str) -> m.Content:
    """Return what agents of a branch said, as the words of agents are shown."""
    return m.Content(content=text(sanitized(words.strip())))


def _line(what: str, hint: str) -> str:
    return sanitized(" ".join(f"{what} {hint}".split()))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
