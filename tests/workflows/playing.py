"""Play a built-in workflow with the offline model, in a small workspace of its own."""

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import midstream.config
from midstream.core.events import StateTransition
from midstream.core.notices import Envelope, TextDelta
from midstream.core.run import Run
from midstream.language.lint_roles import lint_roles
from midstream.language.names import Json
from midstream.language.spec import Definition, Role
from midstream.models.offline import OfflineModel
from midstream.runtime.effects import World
from midstream.runtime.handlers import ScriptHandlers, load_script
from midstream.runtime.loader import load_workflow
from midstream.runtime.ports import Model
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.capability import PermissionMode
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.tools.manager import ToolManager
from midstream.tools.validation import validate

DEFAULTS = Path(str(midstream.config.__file__)).parent / "defaults"

Sleep = Callable[[float], Awaitable[None]]


def builtin_roles() -> dict[str, Role]:
    return {
        name: role
        for path in sorted((DEFAULTS / "roles").iterdir())
        for name, role in lint_roles(path.read_text(), file=path.name)[0].items()
    }


class RealClock:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Play:
    """A machine with everything it said. `until` waits for an event."""

    def __init__(
        self,
        definition: Definition,
        handlers: ScriptHandlers,
        workspace: Path,
        model: Model,
        mode: PermissionMode = "ask",
    ) -> None:
        self.events: list[Envelope] = []
        self._waiting: list[tuple[Callable[[Envelope], bool], asyncio.Future[Envelope]]] = []
        store = MemoryStore()
        world = World(
            model=model,
            tools=ToolManager(policy=lambda: Policy(mode=mode)),
            journal=store,
            blobs=store,
            clock=RealClock(),
            validate=validate,
            workspace=workspace,
        )
        self.machine = WorkflowStateMachine(definition, world, handlers=handlers, tap=self._tap)

    def _tap(self, envelope: Envelope) -> None:
        self.events.append(envelope)
        for wanted, future in self._waiting:
            if not future.done() and wanted(envelope):
                future.set_result(envelope)

    async def until(self, wanted: Callable[[Envelope], bool]) -> Envelope:
        future: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        return await future

    def speaking(
        self, gate: "Gate", *, state: str = "", branch: str = ""
    ) -> asyncio.Task[Envelope]:
        """Return a task that ends once an agent speaks (there, if said where) and closes the gate."""

        def is_speaking(envelope: Envelope) -> bool:
            fact = envelope.event
            if not isinstance(fact, TextDelta):
                return False
            if state not in ("", self.machine.run.visit.state) or branch not in ("", fact.branch):
                return False
            gate.close()
            return True

        return asyncio.create_task(self.until(is_speaking))

    def states(self) -> list[str]:
        """Return the states the run entered, in order; those of branches are not among them."""
        return [
            e.event.target
            for e in self.events
            if isinstance(e.event, StateTransition) and not e.event.branch
        ]


class Gate:
    """A `sleep` for the offline model that stands still while it is closed."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    async def __call__(self, seconds: float) -> None:
        await asyncio.sleep(0)
        await self._open.wait()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()


async def play(
    name: str,
    workspace: Path,
    *,
    sleep: Sleep = asyncio.sleep,
    also: Json = None,
    mode: PermissionMode = "ask",
) -> Play:
    """Return a built-in workflow, ready to start; `also` replaces parts of its offline part."""
    path = DEFAULTS / "workflows" / f"{name}.json"
    part = json.loads((path.with_suffix("") / "offline.json").read_text())
    for agent, scenes in (also or {}).items():
        part[agent] |= scenes
    return await ready(path, workspace, part, sleep=sleep, mode=mode)


async def ready(
    path: Path,
    workspace: Path,
    part: Json,
    *,
    sleep: Sleep = asyncio.sleep,
    mode: PermissionMode = "ask",
) -> Play:
    """Return the workflow of a file, ready to start with that offline part."""
    loaded = load_workflow(path, roles=builtin_roles(), tools=ToolManager().specs())
    assert loaded.warnings == ()
    script = ScriptHandlers({}) if loaded.script is None else await load_script(loaded.script)
    model = OfflineModel(lambda _name: part, pieces_per_s=None, sleep=sleep)
    return Play(loaded.definition, script, workspace, model, mode)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def small_project(folder: Path) -> Path:
    """Return a folder with a little package, three commits and an ignored file."""
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / "src" / "shop"
    package.mkdir(parents=True)
    (folder / ".gitignore").write_text("build/\n")
    (folder / "build").mkdir()
    (folder / "build" / "made.py").write_text("x = 1\n" * 500)
    (package / "__init__.py").write_text("")
    (package / "prices.py").write_text("from shop import cart\n\n\ndef price():\n    return 1\n")
    (package / "cart.py").write_text("from shop.prices import price\n")
    (folder / "README.md").write_text("# Shop\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    branches = "".join(f"    if item == {n}:\n        return {n}\n" for n in range(12))
    for count in (2, 3):
        text = (
            f"from shop.prices import price\n\n\ndef total(item):\n{branches}    return {count}\n"
        )
        (package / "cart.py").write_text(text)
        git(folder, "commit", "-qam", f"change {count}")
    return folder


def answer_to(run: Run) -> str:
    """Return the id of the one open question."""
    (question,) = run.inbox.open_questions
    return question.id


def said_by(run: Run, agent: str) -> list[str]:
    """Return what an agent said, in whichever context."""
    return [
        message.text
        for messages in run.contexts.values()
        for message in messages
        if message.author == agent
    ]
