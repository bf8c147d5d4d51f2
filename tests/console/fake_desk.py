"""A desk without runs: it says what it got, and makes events happen on command.

Run as a program it is a console over that desk, for tests through a real pty.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from midstream.core.events import (
    AgentResponded,
    AnyFact,
    Interrupted,
    QuestionAnswered,
    QuestionAsked,
    ToolCalled,
    ToolReturned,
    WorkflowOutput,
)
from midstream.core.names import Policy
from midstream.core.notices import AnyNotice, Envelope, TextDelta
from midstream.core.question import Question
from midstream.ports import Desk, Face, Status, Submitted

MARKDOWN = """\
# Findings

Some **bold** words and `code`.

- first
- second

| file | lines |
| ---- | ----- |
| a.py | 12    |
"""
HOSTILE = "before\x1b[2J\x1b[31m\x1b]0;title\x07\x9b5Aafter \u202egnp.exe\n› /exit\n\x1b[1A\rprompt"


def asked(
    number: int, text: str, *, kind: str = "question", choices: tuple[str, ...] = ()
) -> Question:
    """Return an open question."""
    return Question(
        id=f"q{number}",
        number=number,
        kind=kind,  # type: ignore[arg-type]
        text=text,
        agent="ada",
        call_id=f"c{number}",
        choices=choices,
    )


class FakeDesk:
    """Implements `Desk`. Every call is kept in `calls`, and said."""

    def __init__(self) -> None:
        self.face: Face | None = None
        self.questions: list[Question] = []
        self.calls: list[str] = []
        self.busy = False
        self.returns = 0
        self.seq = 0
        self.tasks: list[asyncio.Task[None]] = []

    def tell(self, event: AnyFact | AnyNotice) -> None:
        """Show an event of the one run."""
        assert self.face is not None
        self.seq += 1
        self.face.show(Envelope(run="r1", at=0.0, event=event, seq=self.seq))

    def note(self, text: str) -> None:
        """Keep a call and say it."""
        self.calls.append(text)
        assert self.face is not None
        self.face.say(text, kind="note")

    def ask(self, question: Question) -> None:
        """Open a question."""
        self.questions.append(question)
        self.tell(
            QuestionAsked(
                question_id=question.id,
                number=question.number,
                kind=question.kind,
                text=question.text,
                agent=question.agent,
                call_id=question.call_id,
                choices=question.choices,
            )
        )
        assert self.face is not None
        self.face.refresh()

    def close(self, question: str, answer: str) -> None:
        """Close a question by an answer."""
        self.questions = [q for q in self.questions if q.id != question]
        self.tell(QuestionAnswered(question_id=question, answer=answer))
        assert self.face is not None
        self.face.refresh()

    # --- Desk ---

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
        )

    def open_questions(self) -> tuple[Question, ...]:
        """Return the open questions."""
        return tuple(self.questions)

    async def submit(
        self,
        line: str,
        *,
        seen: Collection[str],
        question: str | None = None,
        as_new: bool = False,
        policy: Policy | None = None,
    ) -> Submitted:
        """Judge a line as the real desk does; `/words` make events happen."""
        if line.startswith("/") and not line.startswith("//"):
            return self._command(*line[1:].split(" ", 1))
        normal = [q for q in self.questions if q.kind != "approval"]
        if question is None and not as_new and normal:
            if any(q.id not in seen for q in normal):
                fresh = next(q for q in normal if q.id not in seen)
                self.calls.append(f"unclear {line!r}")
                return Submitted(kind="unclear", question=fresh.id)
            question = normal[0].id
        if self.returns:
            self.returns -= 1
            return Submitted(kind="returned", reason="that is not one of the choices")
        short = line if len(line) < 60 else f"{len(line)} characters"
        self.note(f"got {short!r} question={question} new={as_new} seen={sorted(seen)}")
        if question is not None:
            self.close(question, line)
        return Submitted(kind="taken")

    def _command(self, name: str, rest: str = "") -> Submitted:
        if name == "exit":
            return Submitted(kind="exit")
        actions: dict[str, Callable[[], object]] = {
            "ask": lambda: self.ask(asked(1, rest or "Which colour?", choices=("red", "blue"))),
            "two": self._two,
            "approve": lambda: self.ask(
                asked(9, rest or 'execute_terminal {"command":"rm -rf build"}', kind="approval")
            ),
            "command": lambda: self.ask(
                msgspec.structs.replace(
                    asked(9, f"execute_terminal\n$ {rest}", kind="approval"),
                    command=rest,
                    asks=(f"exec: {rest}", "shown: 1"),
                    why="Commands ask without a sandbox.",
                )
            ),
            "later": lambda: self._soon(lambda: self.ask(asked(1, "Which colour?")), rest),
            "flood": lambda: self._soon_flood(int(rest or 1000)),
            "stream": self._stream,
            "cut": lambda: self.tell(
                Interrupted(epoch=1, text="x", state="review", agent="ada", partial="half a th")
            ),
            "md": lambda: self.tell(AgentResponded(agent="ada", text=MARKDOWN)),
            "hostile": lambda: self.tell(AgentResponded(agent="ada", text=HOSTILE)),
            "tool": self._tool,
            "refuse": lambda: setattr(self, "returns", 1),
            "busy": lambda: setattr(self, "busy", True),
            "boom": self._boom,
            "respond": lambda: self.tell(AgentResponded(agent="ada", text=rest)),
            "pid": lambda: self.note(f"pid {os.getpid()}"),
        }
        if name not in actions:
            return Submitted(kind="returned", reason=f"There is no command /{name}.")
        actions[name]()
        assert self.face is not None
        self.face.refresh()
        return Submitted(kind="taken")

    def _two(self) -> None:
        self.ask(asked(1, "First?"))
        self.ask(asked(2, "Second?"))

    def _boom(self) -> None:
        raise ValueError("boom in the desk")

    def _soon(self, action: Callable[[], object], word: str) -> None:
        """Act once a file of that name is there, so that a test says when."""

        async def act() -> None:
            await asyncio.to_thread(_wait_for_file, word)
            action()

        self.tasks.append(asyncio.ensure_future(act()))

    def _soon_flood(self, count: int) -> None:
        async def flood() -> None:
            for number in range(count):
                self.tell(WorkflowOutput(text=f"line {number} of the flood"))
                if number % 100 == 99:
                    await asyncio.sleep(0.01)
            self.note("flood over")

        self.tasks.append(asyncio.ensure_future(flood()))

    def _stream(self) -> None:
        self.busy = True
        for word in ("Once ", "upon ", "a time"):
            self.tell(TextDelta(agent="ada", text=word))

    def _tool(self) -> None:
        self.tell(
            ToolCalled(call_id="c1", name="read_files", arguments={"path": "a.py"}, agent="ada")
        )
        self.tell(
            ToolReturned(
                call_id="c1", name="read_files", outcome="completed", result="one\ntwo\nthree"
            )
        )

    async def halt(self) -> None:
        """Say that the turn was stopped."""
        self.busy = False
        self.note("halted")

    async def approve(
        self,
        question: str,
        *,
        granted: bool,
        for_run: bool = False,
        note: str = "",
        command: str | None = None,
    ) -> None:
        """Say what was decided."""
        instead = "" if command is None else f" command={command!r}"
        self.note(f"decided {question} granted={granted} for_run={for_run} note={note!r}{instead}")
        self.close(question, "yes" if granted else "no")

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return the commands that begin like that; a desk with a bug in it for `/crash`."""
        if before == "/crash":
            raise ValueError("a bug in completions")
        words = (("/help", "what there is"), ("/hello", "greet"), ("/workflow", "start one"))
        return tuple(pair for pair in words if before and pair[0].startswith(before))

    def waiting_inputs(self) -> tuple[str, ...]:
        """Return nothing: every line is delivered at once."""
        return ()

    async def take_back(self) -> str | None:
        """Return nothing, like `waiting_inputs`."""
        return None


def _wait_for_file(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.005)


def _check(desk: FakeDesk) -> Desk:
    return desk


async def _main(folder: str, fresh_s: float) -> int:
    from midstream.console.interface import ConsoleInterface

    face = ConsoleInterface(
        history_folder=Path(folder) if folder else None,
        fresh_s=fresh_s,
        colour="NO_COLOR" not in os.environ,
    )
    desk = FakeDesk()
    desk.face = face
    face.say("welcome")
    await face.run(desk)
    for task in desk.tasks:
        task.cancel()
    face.say(f"left signal={face.signal}")
    await face.close()
    return 0 if face.signal is None else 128 + face.signal


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[1], float(sys.argv[2]))))
