"""The console under a soak, over a desk that does as it is told: `soaked_console.py FD FOLDER`.

The real ConsoleInterface on the terminal it is started in. Through the socket `FD` come lines of JSON:
what the runs are to say, or `{"dump": true}`, which is answered by all that is kept and drawn.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from pathlib import Path
from socket import socket
from time import monotonic
from typing import Any, Final

import msgspec

from midstream.app.own_commands import run_own_command
from midstream.app.ui import OwnCommandEnded, Status, Submitted
from midstream.core import events as e
from midstream.core.call_notes import COMMAND
from midstream.core.notices import AgentThinking, AnyNotice, Envelope, TextDelta, ThinkingDelta
from midstream.core.question import Decision, Question
from midstream.core.routing import Destination, Route, route
from midstream.core.run import Inbox, Run
from midstream.language.names import Json, Policy
from midstream.tui.interface import ConsoleInterface
from midstream.views.lanes import Lane
from midstream.views.run_status import Waiting
from midstream.views.turns import Turn
from torture.sanitizer import ATTACKS
from torture.soak_script import MARK

AGENTS: Final = 100
MODES: Final = ("ask", "auto", "plan")
FORM: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "feature"]},
        "lines": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
    },
    "required": ["kind"],
}
SEVERAL: Final[dict[str, Json]] = {
    "type": "array",
    "items": {"enum": ["tests", "docs", "types"]},
}
REPLY: Final = f"""\
# Findings {MARK}

Some **bold** words {MARK} and `code`, and a line that is long enough to be wrapped on a narrow screen.

- first {MARK}
- 日本語 {MARK}

```python
def answer() -> int:  # {MARK}
    return 42
```

| file | lines |
| ---- | ----- |
| {MARK} | 12 |
"""


class SoakedDesk:
    """A desk without runs; see the port `Desk`. `log` is what reached it."""

    def __init__(self, folder: Path) -> None:
        self.face: ConsoleInterface | None = None
        self.log: list[dict[str, Json]] = []
        self.questions: list[Question] = []
        self.waiting: list[Waiting] = []
        self.lanes: tuple[Lane, ...] = ()
        self.busy = False
        self.refusals = 0
        self.delay_s = 0.0
        self._folder = folder
        self._seq = 0
        self._number = 0
        self._mode = 0

    # --- the runs ---

    def tell(self, what: str, count: int) -> None:
        """Do what a line of the script says."""
        for number in range(count if what in ("stream", "think", "lines", "foreign") else 1):
            self._told(what, number)
        if what == "lanes":
            self.lanes = tuple(self._lane(number) for number in range(min(count, AGENTS)))
        assert self.face is not None
        self.face.refresh()

    def _told(self, what: str, number: int) -> None:
        agent, run = f"ada{number % 3}", f"run{number % AGENTS:02}"
        match what:
            case "stream":
                self._show(TextDelta(agent=agent, text=f"word {MARK} "), run)
            case "think":
                self._show(AgentThinking(agent=agent, state="start"), run)
                self._show(ThinkingDelta(agent=agent, text=f"hm {MARK} "), run)
            case "lines":
                self._show(e.WorkflowOutput(text=f"line {number} of the flood {MARK}"), run)
            case "foreign":
                attack = ATTACKS[(self._seq + number) % len(ATTACKS)]
                text = f"{MARK}{attack}{MARK}"
                self._show(e.AgentResponded(agent=agent, text=text), run)
            case "reply":
                self._show(e.AgentResponded(agent="ada", text=REPLY))
            case "tool":
                call = f"c{self._seq}"
                arguments: dict[str, Json] = {"path": f"a{MARK}.py"}
                self._show(
                    e.ToolCalled(call_id=call, name="read_files", arguments=arguments, agent="ada")
                )
                result = f"one {MARK}\n" * 30
                returned = e.ToolReturned(
                    call_id=call, name="read_files", outcome="completed", result=result
                )
                self._show(returned)
            case "ask":
                self._ask(text=f"Which colour? {MARK}")
            case "choices":
                self._ask(text=f"Which? {MARK}", choices=(f"red {MARK}", f"blue {MARK}"))
            case "form":
                self._ask(text=f"What is it? {MARK}", schema=FORM)
            case "several":
                self._ask(text=f"Which of them? {MARK}", schema=SEVERAL)
            case "approve":
                self._ask(text=f'write_file {{"path": "{MARK}"}}', kind="approval")
            case "command":
                text = f"execute_terminal\n$ rm -rf {MARK}"
                self._ask(text=text, kind="approval", command="rm -rf build")
            case "close":
                self._close(self.questions[0].id if self.questions else "", "elsewhere")
            case "close_all":
                for question in [*self.questions]:
                    self._close(question.id, "elsewhere")
            case "busy":
                self.busy = True
            case "idle":
                self.busy, self.lanes = False, ()
            case "halt":
                self.busy = False
                self._show(
                    e.Interrupted(
                        epoch=1, text="x", state="review", agent="ada", partial="half a th"
                    )
                )
            case "refuse":
                self.refusals += 1
            case "slow":
                self.delay_s = 0.0 if self.delay_s else 0.05
            case "dispose":
                self._dispose()

    def _show(self, event: e.AnyFact | AnyNotice, run: str = "run00") -> None:
        assert self.face is not None
        self._seq += 1
        self.face.show(Envelope(run=run, at=0.0, event=event, seq=self._seq))

    def _ask(self, **parts: Any) -> None:
        if len(self.questions) >= 4:
            return
        self._number += 1
        question = Question(
            id=f"q{self._number}",
            number=self._number,
            agent="ada",
            call_id=f"k{self._number}",
            **{"kind": "question"} | parts,
        )
        self.questions.append(question)
        self.log.append({"what": "asked", "question": question.id, "at": monotonic()})
        fact = e.QuestionAsked(
            question_id=question.id,
            number=question.number,
            kind=question.kind,
            text=question.text,
            agent=question.agent,
            call_id=question.call_id,
            choices=question.choices,
            schema=question.schema,
            command=question.command,
        )
        self._show(fact)

    def _close(self, question: str, answer: str) -> None:
        if any(open.id == question for open in self.questions):
            self.questions = [open for open in self.questions if open.id != question]
            self._show(e.QuestionAnswered(question_id=question, answer=answer))

    def _dispose(self) -> None:
        """Have the oldest waiting line come back without having had an effect."""
        if self.waiting:
            line = self.waiting.pop(0)
            self._show(e.InputDisposed(input_id=line.id, disposition="rejected"))

    def _lane(self, number: int) -> Lane:
        return Lane(
            run=f"run{number:02}",
            path=f"b{number}",
            state="start",
            doing=f"is writing {MARK}",
            agent="ada",
        )

    # --- the desk ---

    def status(self) -> Status:
        """Return a status with most of its parts."""
        return Status(
            mode="role:dude",
            enter=f"answers #{self.questions[0].number}" if self.questions else "sends to dude",
            state="review",
            thinking="ada is thinking" if self.busy else "",
            model="offline",
            cost="$0.01",
            busy=self.busy,
            permission="" if not self._mode else MODES[self._mode],
            tab="queues" if self.busy else "",
            lanes=self.lanes if self.busy else (),
            addressees={"ada": "interrupts ada"} if self.busy else {},
            progress="step 2 of 5" if self.busy else "",
        )

    def status_fields(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def open_questions(self) -> tuple[Question, ...]:
        """Return the open questions."""
        return tuple(self.questions)

    def route(
        self,
        line: str,
        *,
        seen: Collection[str],
        focused: str = "",
        answers: str = "",
        is_new: bool = False,
    ) -> Route | None:
        """Judge a line as the real desk does."""
        if line.startswith("/") and not line.startswith("//"):
            return None
        run = Run(id="", inbox=Inbox(open_questions=tuple(self.questions)))
        return route(line, run, seen=seen, focused=focused, answers=answers, is_new=is_new)

    def interrupts(self, to: Destination) -> bool:
        """Have nothing that is cut off."""
        return False

    async def submit(self, line: str, *, seen: Collection[str]) -> Submitted:
        """Take a command."""
        await asyncio.sleep(self.delay_s)
        result = Submitted(kind="returned", reason=f"There is no such command {MARK}.")
        if line == "/exit":
            result = Submitted(kind="exit")
        self.log.append({"what": "submit", "line": line, "result": result.kind})
        return result

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Take words."""
        await asyncio.sleep(self.delay_s)
        result = self._taken(to.text, to.question, policy)
        self.log.append({"what": "submit", "line": to.text, "result": result.kind})
        return result

    def _taken(self, line: str, question: str | None, policy: Policy | None) -> Submitted:
        if self.refusals:
            self.refusals -= 1
            return Submitted(kind="returned", reason=f"That is not one of the choices {MARK}.")
        if policy is not None:
            self._seq += 1
            id = f"i{self._seq}"
            fate = f"waits until review is done {MARK}"
            self.waiting.append(Waiting(id=id, text=line, fate=fate, brief="after review"))
            self._show(e.InputReceived(input_id=id, text=line, source="console", handling=policy))
        if question is not None:
            self._close(question, line)
        return Submitted(kind="taken")

    async def answered(self) -> None:
        """Have every reply whole at once."""

    async def halt(self) -> None:
        """Stop what runs."""
        self._told("halt", 0)

    async def go_on(self) -> None:
        """Have nothing that was stopped."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Keep what was decided, and when."""
        self.log.append(
            {
                "what": "approve",
                "question": question,
                "granted": decision.granted,
                "note": decision.note,
                "command": (decision.edited or {}).get(COMMAND),
                "at": monotonic(),
            }
        )
        self._close(question, "yes" if decision.granted else "no")

    def next_permission_mode(self) -> str:
        """Go from ask to auto, plan and back."""
        self._mode = (self._mode + 1) % len(MODES)
        return f"{MODES[self._mode]}: from the next call on"

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return the commands that begin like that."""
        words = (("/help", "what there is"), ("/hello", "greet"), ("/workflow", "start one"))
        return tuple(pair for pair in words if before and pair[0].startswith(before))

    async def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give the files of a small workspace, the second half only later."""
        if not mention.startswith("@"):
            return
        found = tuple((f, "file") for f in ("@README.md", "@src/", "@src/a.py") if mention[1:] in f)
        yield found[:1]
        await asyncio.sleep(0.01)
        yield found

    async def picture(self, pasted: str) -> str:
        """Keep none."""
        return ""

    async def clipboard(self) -> str:
        """Hold a word."""
        return "clipped"

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run a command as the real desk does."""
        self.log.append({"what": "own", "line": command})
        return await run_own_command(command, self._folder, stop=stop, hears=hears)

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return the lines that wait."""
        return tuple(self.waiting)

    async def turns(self) -> tuple[Turn, ...]:
        """Return none."""
        return ()

    async def go_back(self, turn: Turn) -> None:
        """Go nowhere."""

    async def take_back(self) -> str | None:
        """Take the newest of them back."""
        await asyncio.sleep(self.delay_s)
        return self.waiting.pop().text if self.waiting else None


# --- what is kept and drawn ---------------------------------------------------------------------


def dumped(face: ConsoleInterface, desk: SoakedDesk) -> dict[str, Any]:
    """Return all text the console holds, and what it thinks it has drawn."""
    editor, app = face.editor, face._display.app
    held: list[str] = []
    _texts(editor, held, set(), 0)
    _texts(face._dialog, held, set(), 0)
    held += [waiting.text for waiting in desk.waiting]
    screen, rows, cursor = None if app is None else app.renderer._last_screen, [], (0, 0)
    if app is not None and screen is not None:
        width = app.output.get_size().columns
        rows = [_row(screen.data_buffer[y], width) for y in range(screen.height)]
        cursor = (app.renderer._cursor_pos.x, app.renderer._cursor_pos.y)
    return {
        "editor": editor.buffer.text,
        "held": held,
        "history": [editor._pastes.unfolded(text) for text in editor.buffer.history.get_strings()],
        "log": desk.log,
        "rows": rows,
        "cursor": cursor,
        "questions": [question.id for question in desk.questions],
    }


def _row(cells: Any, width: int) -> str:
    found, x = "", 0
    while x < width:
        found += cells[x].char
        x += max(1, cells[x].width)
    return found.rstrip()


def _texts(value: Any, found: list[str], known: set[int], depth: int) -> None:
    """Collect every text below a value, through anything that holds others."""
    if isinstance(value, str):
        found.append(value)
        return
    if id(value) in known or depth > 7 or callable(value):
        return
    known.add(id(value))
    if isinstance(value, dict):
        parts = [*value.values()]
    elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "deque":
        parts = [*value]
    elif isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif type(value).__module__.startswith("midstream") or type(value).__name__ == "Buffer":
        parts = [part for name, part in vars(value).items() if name != "history"]
    else:
        return
    for part in parts:
        _texts(part, found, known, depth + 1)


async def _obey(face: ConsoleInterface, desk: SoakedDesk, told: socket) -> None:
    reader, writer = await asyncio.open_connection(sock=told, limit=1 << 26)
    while line := await reader.readline():
        order = msgspec.json.decode(line)
        if order.get("dump"):
            writer.write(msgspec.json.encode(dumped(face, desk)) + b"\n")
            await writer.drain()
        elif order.get("ping"):
            writer.write(msgspec.json.encode({"left": face._leaving.is_left}) + b"\n")
            await writer.drain()
        else:
            desk.tell(order["what"], order["count"])


async def _main(fd: int, folder: Path) -> int:
    face = ConsoleInterface(history_folder=folder / "history", notifications="bell", away_s=0.0)
    desk = SoakedDesk(folder)
    desk.face = face
    face.say(f"welcome {MARK}")
    obeying = asyncio.ensure_future(_obey(face, desk, socket(fileno=fd)))
    await face.run(desk)
    obeying.cancel()
    await asyncio.gather(obeying, return_exceptions=True)
    face.say(f"left {MARK}")
    await face.close()
    return 0 if face.signal is None else 128 + face.signal


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), Path(sys.argv[2]))))
