"""AICoderConsole over real runs, a scripted model and a store in memory, with everything in sight."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from deadline import DEADLINE_S as DEADLINE_S

from midstream.app.ai_coder_console import AICoderConsole
from midstream.app.assembly import Parts
from midstream.app.chats import GoesOn
from midstream.app.input import not_sent
from midstream.app.ui import UI, Console, Submitted
from midstream.config.manager import ConfigManager
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.language import names
from midstream.language.errors import UserMistake
from midstream.language.spec import Definition, Guidance, Role
from midstream.models.model_choice import ModelChoice
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeTools,
    JumpingClock,
    Line,
    ScriptedModel,
    define,
    fake_world,
)
from midstream.tools.permissions import Permissions
from midstream.views.side_effects import ChangedFile

Told = Literal["info", "note", "warning", "error"]

WORKS: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "ada", "context": "talk"}],
    "states": [{"name": "start", "agent": "ada"}],
}
WORKFLOWS: dict[str, dict[str, Any]] = {
    "review": WORKS,
    "survey": WORKS,
    "deaf": {**WORKS, "on_input": "reject"},
    "patient": {**WORKS, "on_input": "queue"},
}


class Listener(Chronicle, UI):
    """A UI that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.handed = ""
        self._is_news = asyncio.Event()

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Remember an event."""
        self(envelope)

    def say(self, text: str, *, kind: Told = "info") -> None:
        """Remember words."""
        self.said.append(text)
        self._is_news.set()

    async def told(self, text: str) -> None:
        """Return once words with this text were said."""
        while not any(text in words for words in self.said):
            self._is_news.clear()
            await self._is_news.wait()

    def past(self, run: Run) -> None:
        """Remember what was said in the past."""
        self.said += [m.text for messages in run.contexts.values() for m in messages]

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Remember what was being asked."""
        self.said += [question.text for question in questions]

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Remember which files."""
        self.said += [f"{each.diff.path} {each.note}\n{each.diff.diff}" for each in changes]

    def hand(self, words: str) -> None:
        """Remember which words."""
        self.handed = words

    async def run(self, desk: Console) -> None:
        """Read nothing."""

    async def close(self) -> None:
        """Have nothing to close."""


class Library(WorkflowLibrary):
    """A library of two roles and the workflows above."""

    def __init__(self, tools: FakeTools) -> None:
        self._fakes = tools

    def roles(self) -> dict[str, Role]:
        """Return the roles."""
        return {"dude": Role(), "coder": Role()}

    def guidance(self) -> tuple[Guidance, ...]:
        """Return no words of AGENTS.md."""
        return ()

    def workflows(self) -> dict[str, str]:
        """Return the workflows."""
        return dict.fromkeys(WORKFLOWS, "")

    async def load(self, name: str) -> tuple[Definition, ScriptHandlers]:
        """Return a workflow, after as long as a disk takes."""
        await asyncio.sleep(0)
        if name not in WORKFLOWS:
            raise UserMistake(f"There is no workflow {name!r}.")
        definition = define({"workflow_name": name, **WORKFLOWS[name]}, tools=self._fakes)
        found = msgspec.structs.replace(definition, found_as=name)
        return found, ScriptHandlers({}, where="The test")

    async def pinned(self, definition: Definition) -> ScriptHandlers:
        """Return no handlers: no workflow here has a script."""
        return ScriptHandlers({}, where="The test")


class OneModel(ModelChoice):
    """Models of which there is one."""

    def __init__(self) -> None:
        """Need no client."""

    def describe(self) -> str:
        """Return its name."""
        return "scripted"

    def use(self, name: str | None, level: str | None = None) -> None:
        """Change nothing."""

    def levels(self) -> tuple[tuple[str, str, str], ...]:
        """Return the one level there is."""
        return (("base", "scripted", "scripted"),)

    async def doubts(self, name: str) -> str:
        """Have none."""
        return ""

    def names(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return none."""
        return ()

    async def look_here(self) -> None:
        """Find nobody."""

    async def window(self, level: str) -> tuple[str, int | None]:
        """Return a model that takes a hundred thousand tokens."""
        return "scripted", 100_000


class Scene:
    """A console with everything it works with in sight."""

    def __init__(
        self,
        home: Path,
        *script: Line,
        tools: FakeTools | None = None,
        store: MemoryStore | None = None,
        rules: Policy | None = None,
        goes_on: GoesOn | None = None,
        mode: str | None = None,
    ) -> None:
        self.rules = rules
        self.model = ScriptedModel(*script)
        self.ui = Listener()
        self.tools = tools or FakeTools()
        self.store = store or MemoryStore()
        self.store.is_lasting = True
        self.clock = JumpingClock()
        world = fake_world(
            self.model,
            tools=self.tools,
            journal=self.store,
            blobs=self.store,
            clock=self.clock,
        )
        self.engine = LocalEngine(world, self.store)
        self.library = Library(self.tools)
        environ = {"MIDSTREAM_CONFIG_HOME": str(home), "MIDSTREAM_STATE_HOME": str(home)}
        config = ConfigManager(home, mode=mode, environ=environ)
        self.console = AICoderConsole(config, self.ui, goes_on=goes_on)
        self.session = self.console.session

    async def equip(self) -> None:
        """Have everything loaded; nothing is asked of a provider or run here."""
        none: Any = None
        await self.console.equip(
            Parts(
                config=self.session.config,
                engine=self.engine,
                store=self.store,
                library=self.library,
                client=none,
                models=OneModel(),
                tools=self.tools.specs(),
                permissions=Permissions(self.rules),
                sandbox=none,
                mcp=None,
            )
        )

    async def type(self, line: str) -> Submitted:
        """Send a line begun with everything in view that is there now."""
        return await self.console.submit(line, seen=self.in_view())

    async def send(
        self,
        line: str,
        *,
        seen: Collection[str] = (),
        answers: str = "",
        policy: names.Policy | None = None,
    ) -> Submitted:
        """Send words as an answer to a question, else as new ones, by this policy."""
        to = self.console.route(line, seen=seen, answers=answers, is_new=not answers)
        if isinstance(to, Destination):
            return await self.console.send(to, seen=seen, policy=policy)
        assert to is not None
        return not_sent(to)

    def in_view(self) -> frozenset[str]:
        """Return the ids of the questions on the screen."""
        return frozenset(question.id for question in self.console.open_questions())

    async def thinking(self, count: int = 1) -> None:
        """Return when so many model requests have begun."""
        await self.ui.until("agent_thinking", count=count)

    async def asked(self, count: int = 1) -> None:
        """Return when so many questions have been asked."""
        await self.ui.until("question_asked", lambda event: event.kind != "input", count=count)


@asynccontextmanager
async def scene(
    home: Path,
    *script: Line,
    tools: FakeTools | None = None,
    store: MemoryStore | None = None,
    goes_on: GoesOn | None = None,
    mode: str | None = None,
) -> AsyncIterator[Scene]:
    """Give a console that is loaded; let go of its runs at the end."""
    async with asyncio.timeout(DEADLINE_S):
        made = Scene(home, *script, tools=tools, store=store, goes_on=goes_on, mode=mode)
        await made.equip()
        yield made
        await made.console.close()
