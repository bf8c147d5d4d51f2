"""A session without runs: it says what it got, and makes events happen on command.

Run as a program it is a console over that session, for tests through a real pty.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection
from pathlib import Path
from typing import Any

import msgspec

from midstream.app.input import not_sent
from midstream.app.own_commands import run_own_command
from midstream.app.ui import UI, Console, OwnCommandEnded, Status, Submitted
from midstream.config.manager import ConfigManager
from midstream.core import events as e
from midstream.core.notices import AnyNotice, Envelope, TextDelta
from midstream.core.question import Decision, Question
from midstream.core.routing import Destination, Route, Unclear, is_command, is_goodbye, route
from midstream.core.run import Inbox, Run, Visit, with_visit
from midstream.language.names import Policy
from midstream.language.spec import Definition, Workflow
from midstream.tui.themes import Look
from midstream.views.run_status import Waiting
from midstream.views.turns import Turn

MARKDOWN = """\
# Findings

Some **bold** words and `code`.

- first
- second

| file | lines |
| ---- | ----- |
| a.py | 12    |
"""
FILES = ("@README.md", "@src/", "@src/app.py", "@src/other.py")
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


def no_settings() -> ConfigManager:
    """Return settings of folders that are not there."""
    home = {"MIDSTREAM_CONFIG_HOME": "/nowhere", "MIDSTREAM_STATE_HOME": "/nowhere"}
    return ConfigManager(Path("/nowhere"), environ=home)


class FakeSession:
    """Implements `Console`. Every call is kept in `calls`, and said."""

    def __init__(self) -> None:
        self.ui: UI | None = None
        self.config = no_settings()
        self.questions: list[Question] = []
        self.calls: list[str] = []
        self.new: set[str] = set()
        self.busy = False
        self.returns = 0
        self.seq = 0
        self.waiting: list[Waiting] = []
        self.permission = "ask"
        self.earlier: tuple[Turn, ...] = ()
        self.tasks: list[asyncio.Task[None]] = []
        self.run: Run | None = None
        self.last_run = Run(
            id="r1", definition=GRAPHED, visit=Visit(state="start"), visits={"start": 1}
        )

    def tell(self, event: e.AnyFact | AnyNotice) -> None:
        """Show an event of the one run."""
        assert self.ui is not None
        self.seq += 1
        self.ui.show(Envelope(run="r1", at=0.0, event=event, seq=self.seq))

    def note(self, text: str) -> None:
        """Keep a call and say it."""
        self.calls.append(text)
        assert self.ui is not None
        self.ui.say(text, kind="note")

    def ask(self, question: Question) -> None:
        """Open a question."""
        self.questions.append(question)
        self.tell(
            e.QuestionAsked(
                question_id=question.id,
                number=question.number,
                kind=question.kind,
                text=question.text,
                agent=question.agent,
                call_id=question.call_id,
                choices=question.choices,
                schema=question.schema,
            )
        )
        assert self.ui is not None
        self.ui.refresh()

    def close(self, question: str, answer: str) -> None:
        """Close a question by an answer."""
        self.questions = [q for q in self.questions if q.id != question]
        self.tell(e.QuestionAnswered(question_id=question, answer=answer))
        assert self.ui is not None
        self.ui.refresh()

    # --- Console ---

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
            permission="" if self.permission == "ask" else self.permission,
            tab="queues" if self.busy else "",
            run="" if self.run is None else self.run.id,
        )

    def status_fields(self) -> dict[str, str]:
        """Return a few fields."""
        return {"model": self.status().model, "cost": self.status().cost}

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
        """Judge a line as the real session does, by the questions that are open."""
        if is_command(line) or (is_goodbye(line) and not self.questions):
            return None
        run = Run(id="", inbox=Inbox(open_questions=tuple(self.questions)))
        found = route(line, run, seen=seen, focused=focused, answers=answers, is_new=is_new)
        if is_new:
            self.new.add(line)
        if isinstance(found, Unclear):
            self.calls.append(f"unclear {line!r}")
        return found

    def interrupts(self, to: Destination) -> bool:
        """Have nothing that is cut off."""
        return False

    async def submit(self, line: str, *, seen: Collection[str]) -> Submitted:
        """Take a line; `/words` make events happen."""
        to = self.route(line, seen=seen)
        if to is None:
            return self._command(*line[1:].split(" ", 1))
        if isinstance(to, Destination):
            return await self.send(to, seen=seen)
        return not_sent(to)

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Say what came."""
        if self.returns:
            self.returns -= 1
            return Submitted(kind="returned", reason="that is not one of the choices")
        short = to.text if len(to.text) < 60 else f"{len(to.text)} characters"
        if policy is not None:
            self.waiting.append(_waits(to.text, policy))
        how = "" if policy is None else f" policy={policy}"
        is_new = to.text in self.new
        self.note(f"got {short!r} question={to.question} new={is_new} seen={sorted(seen)}{how}")
        if to.question is not None:
            self.close(to.question, to.text)
        return Submitted(kind="taken")

    def _command(self, name: str, rest: str = "") -> Submitted:
        if name == "exit":
            return Submitted(kind="exit")
        if name == "redo":
            return Submitted(kind="returned", reason="nothing to redo", to_mend=False)
        actions: dict[str, Callable[[], object]] = {
            "ask": lambda: self.ask(asked(1, rest or "Which colour?", choices=("red", "blue"))),
            "two": self._two,
            "list": lambda: self.ask(
                asked(1, "Which one?", choices=tuple(f"choice {n}" for n in range(1, 13)))
            ),
            "form": lambda: self.ask(msgspec.structs.replace(asked(3, "What is it?"), schema=FORM)),
            "several": lambda: self.ask(
                msgspec.structs.replace(asked(4, "Which of them?"), schema=SEVERAL)
            ),
            "idle": lambda: setattr(self, "busy", False),
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
            "gone": lambda: self._soon(lambda: self.close("q3", "elsewhere"), rest),
            "later": lambda: self._soon(lambda: self.ask(asked(1, "Which colour?")), rest),
            "flood": lambda: self._soon_flood(int(rest or 1000)),
            "stream": self._stream,
            "cut": lambda: self.tell(
                e.Interrupted(epoch=1, text="x", state="review", agent="ada", partial="half a th")
            ),
            "md": lambda: self.tell(e.AgentResponded(agent="ada", text=MARKDOWN)),
            "hostile": lambda: self.tell(e.AgentResponded(agent="ada", text=HOSTILE)),
            "tool": self._tool,
            "refuse": lambda: setattr(self, "returns", 1),
            "busy": lambda: setattr(self, "busy", True),
            "boom": self._boom,
            "respond": lambda: self.tell(e.AgentResponded(agent="ada", text=rest)),
            "turns": lambda: setattr(self, "earlier", turns(int(rest))),
            "follow": self._follow,
            "move": lambda: self._move(rest),
            "over": self._over,
            "tall": lambda: self.ask(
                asked(9, "".join(f"row {n} of many\n" for n in range(int(rest))), kind="approval")
            ),
            "turn": self._turn,
            "away": lambda: setattr(self, "run", None),
            "pid": lambda: self.note(f"pid {os.getpid()}"),
        }
        if name not in actions:
            return Submitted(kind="returned", reason=f"There is no command /{name}.")
        actions[name]()
        assert self.ui is not None
        self.ui.refresh()
        return Submitted(kind="taken")

    def _follow(self) -> None:
        self.run = self.last_run
        assert self.ui is not None
        # The UI goes on asking of a run the session has left.
        assert self.ui.follow(lambda: self.run or self.last_run)

    def _move(self, state: str) -> None:
        run = self.last_run
        self.tell(e.StateTransition(source=run.visit.state, target=state, reason="next"))
        visits = {**run.visits, state: run.visits.get(state, 0) + 1}
        self.last_run = self.run = msgspec.structs.replace(
            run, visit=Visit(state=state), visits=visits
        )

    def _over(self) -> None:
        ended = msgspec.structs.replace(with_visit(self.last_run, phase="ended"), status="finished")
        self.last_run, self.run = ended, None
        self.tell(e.RunFinished())

    def _turn(self) -> None:
        assert self.ui is not None
        self.ui.turned_to("r1", self.questions)

    def _two(self) -> None:
        self.ask(asked(1, "First?"))
        self.ask(asked(2, "Second?"))

    def _boom(self) -> None:
        raise ValueError("boom in the session")

    def _soon(self, action: Callable[[], object], word: str) -> None:
        """Act once a file of that name is there, so that a test says when."""

        async def act() -> None:
            await asyncio.to_thread(_wait_for_file, word)
            action()

        self.tasks.append(asyncio.ensure_future(act()))

    def _soon_flood(self, count: int) -> None:
        async def flood() -> None:
            for number in range(count):
                self.tell(e.WorkflowOutput(text=f"line {number} of the flood"))
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
            e.ToolCalled(call_id="c1", name="read_files", arguments={"path": "a.py"}, agent="ada")
        )
        self.tell(
            e.ToolReturned(
                call_id="c1", name="read_files", outcome="completed", result="one\ntwo\nthree"
            )
        )

    async def answered(self) -> None:
        """Have every reply whole at once."""

    async def halt(self) -> None:
        """Say that the turn was stopped."""
        self.busy = False
        self.note("halted")

    async def go_on(self) -> None:
        """Have nothing that was stopped."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Say what was decided."""
        edited = decision.edited or {}
        instead = "".join(f" {name}={value!r}" for name, value in edited.items())
        what = f"granted={decision.granted} for_run={decision.for_run} note={decision.note!r}"
        self.note(f"decided {question} {what}{instead}")
        self.close(question, "yes" if decision.granted else "no")

    async def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give the files of a small workspace, the second half only later."""
        if not mention.startswith("@"):
            return
        found = tuple((f, "file") for f in FILES if mention[1:] in f)
        yield found[:1]
        await asyncio.sleep(0.01)
        yield found

    async def picture(self, pasted: str) -> str:
        """Keep no picture: what is called like one has a mark."""
        return "[image 3fa9c1d2: shot.png 4x3]" if pasted.endswith(".png") else ""

    async def clipboard(self) -> str:
        """Hold a few words."""
        return "from the clipboard"

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run a command as the real session does."""
        return await run_own_command(command, Path.cwd(), stop=stop, hears=hears)

    def next_permission_mode(self) -> str:
        """Go from ask to auto, plan and back."""
        modes = ("ask", "auto", "plan")
        self.permission = modes[(modes.index(self.permission) + 1) % 3]
        self.calls.append(f"mode {self.permission}")
        return f"{self.permission}: from the next call on"

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return the commands that begin like that; a session with a bug in it for `/crash`."""
        if before == "/crash":
            raise ValueError("a bug in completions")
        words = (("/help", "what there is"), ("/hello", "greet"), ("/workflow", "start one"))
        return tuple(pair for pair in words if before and pair[0].startswith(before))

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return the lines that were given a policy: they are never delivered."""
        return tuple(self.waiting)

    async def turns(self) -> tuple[Turn, ...]:
        """Return three turns, where `/turns` asked for them."""
        return self.earlier

    async def go_back(self, turn: Turn) -> None:
        """Say to where, and hand the words back."""
        self.note(f"back to {turn.at}")
        assert self.ui is not None
        self.ui.hand(turn.words)

    async def take_back(self) -> str | None:
        """Take the newest of them back."""
        return self.waiting.pop().text if self.waiting else None


def turns(count: int) -> tuple[Turn, ...]:
    """Return so many turns, the newest first."""
    return tuple(Turn(run="", at=n, words=f"do thing {n}\nwell") for n in range(count, 0, -1))


GRAPHED = Definition(
    workflow=msgspec.convert(
        {
            "workflow_name": "triage",
            "states": [
                {"name": "start", "next": "look"},
                {
                    "name": "look",
                    "description": "Find out what is wrong, and where.",
                    "transitions": [{"when": "found > 3", "to": "plan"}],
                    "next": "mend",
                },
                {"name": "plan", "next": "mend"},
                {"name": "mend", "next": "review"},
                {
                    "name": "review",
                    "transitions": [{"when": "not good", "to": "mend"}],
                    "next": "stop",
                },
                {"name": "stop"},
            ],
        },
        Workflow,
    ),
    roles={},
)
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "feature"]},
        "lines": {"type": "integer", "minimum": 1},
        "note": {"type": "string", "pattern": "^[a-z ]+$"},
    },
    "required": ["kind", "lines"],
}
SEVERAL: dict[str, Any] = {"type": "array", "items": {"enum": ["tests", "docs", "types"]}}


def _waits(line: str, policy: Policy) -> Waiting:
    fates = {"steer": ("joins the next request of ada", "next request")}
    fate, brief = fates.get(policy, ("waits until review is done", "after review"))
    return Waiting(id=f"w{line}", text=line, fate=fate, brief=brief)


def _wait_for_file(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.005)


def _check(session: FakeSession) -> Console:
    return session


async def _main(folder: str, fresh_s: float) -> int:
    from midstream.tui import keymap
    from midstream.tui.interface import ConsoleInterface

    keymap.use(json.loads(os.environ.get("KEYS", "{}")))
    ui = ConsoleInterface(
        history_folder=Path(folder) if folder else None,
        fresh_s=fresh_s,
        leave_s=float(os.environ.get("LEAVE_S", "60")),
        look=Look(os.environ.get("THEME", "auto"), colour="NO_COLOR" not in os.environ),
        notifications="bell" if "BELL" in os.environ else "off",
        away_s=0.0,
        editing="vi" if os.environ.get("EDITING") == "vi" else "emacs",
    )
    session = FakeSession()
    session.ui = ui
    ui.say("welcome")
    await ui.run(session)
    for task in session.tasks:
        task.cancel()
    ui.say(f"left signal={ui.signal}")
    await ui.close()
    return 0 if ui.signal is None else 128 + ui.signal


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[1], float(sys.argv[2]))))
