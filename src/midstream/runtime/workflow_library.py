"""Where roles and workflows are found, and workflows made ready to run.

A workflow is a file `NAME.json`, or one written in Python: `NAME.py`, found by its name, or any file that
is named by its path (`FILE.py:NAME`). A Python file is read as a `script.py` is, from bytes that were read
and trusted; what runs of it is the definition it makes, which goes through the same checks.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final, TypeAlias

import msgspec

from midstream.config.agents_file import guidance_here
from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path
from midstream.core.guidance import with_guidance
from midstream.core.pinning import script_change
from midstream.language.errors import (
    AuthorMistake,
    MidstreamError,
    NotTrusted,
    UserMistake,
    did_you_mean,
)
from midstream.language.names import Json, python_file
from midstream.language.plan import chat_definition, sub_workflow
from midstream.language.problem import Problem, as_text
from midstream.language.shape import read_file
from midstream.language.spec import Definition, Guidance, Role, ToolSpec
from midstream.runtime.handlers import (
    Handler,
    ScriptHandlers,
    load_module,
    load_script,
    module_of,
    script_functions,
)
from midstream.runtime.json_values import plain
from midstream.runtime.loader import (
    OFFLINE_NAME,
    HasProblems,
    LoadedWorkflow,
    decoded,
    digest,
    load_workflow,
    script_beside,
    unreadable,
)
from midstream.runtime.python_workflow import Workflow
from midstream.runtime.script_outline import every_state, source_of, text_of
from midstream.system.offloop import in_thread

UNTRUSTED = "not trusted as it stands: /trust shows it"


Inner: TypeAlias = Mapping[str, tuple[Definition, ScriptHandlers]]
"""Workflows that others run, by name, each with the handlers of its script."""

NOTHING_INNER: Final[Inner] = MappingProxyType({})

TakeIn: TypeAlias = Callable[[Sequence[Callable[..., object]], str], None]
"""Lets agents use the functions of a workflow as tools; they are those of a file, "" of a program."""


class PythonFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Python file with a workflow: `name` is what that is called in it, "" for the only one."""

    path: Path
    name: str
    found_as: str
    source: bytes = b""


class WorkflowLibrary:
    """The roles and workflows of the settings' layers.

    Args:
        config: where the files are; what is not trusted is not read.
        tools: the tools agents may use, by name.
        take_in: puts the tools that a workflow in Python brings among them.
        environment: returns where roles work; None tells them nothing of it.
    """

    def __init__(
        self,
        config: ConfigManager,
        tools: Mapping[str, ToolSpec],
        take_in: TakeIn = lambda functions, file: None,
        environment: Callable[[], Guidance] | None = None,
    ) -> None:
        self._config = config
        self._environment = environment
        self._tools = tools
        self._take_in = take_in
        self._offline_parts: dict[str, Json | AuthorMistake] = {}
        self._called: dict[str, tuple[str, ScriptHandlers]] = {}

    def roles(self) -> dict[str, Role]:
        """Return every role by name."""
        return self._config.roles()

    def guidance(self) -> tuple[Guidance, ...]:
        """Return what roles that work in the folder are told of it: where it is, and people's words."""
        words = guidance_here(self._config)
        return words if self._environment is None else (self._environment(), *words)

    def chat(self, name: str, tools: Mapping[str, ToolSpec]) -> Definition:
        """Return a chat with a role as it is now, with what it may hand on and run. Waits for the disk.

        Args:
            name: the role's.
            tools: the tools there are now.

        Raises:
            UserMistake: there is no such role.
        """
        roles = self.roles()
        if name not in roles:
            raise UserMistake(f"There is no role {name!r}.", hint=did_you_mean(name, roles))
        return chat_definition(name, roles[name], tools, self.guidance(), roles, self.workflows())

    def workflows(self) -> dict[str, str]:
        """Return every workflow's description by name."""
        found = self._config.workflows()
        untrusted = dict.fromkeys(self._config.untrusted_workflows(), UNTRUSTED)
        return untrusted | {name: one.problem or one.description for name, one in found.items()}

    async def load(self, name: str) -> tuple[Definition, ScriptHandlers]:
        """Return a workflow and the handlers of its script, read and imported off the loop.

        Args:
            name: a workflow's name, or `FILE.py:NAME` for one written in Python (from the workspace).

        Raises:
            UserMistake: there is no workflow of that name.
            AuthorMistake: its files have problems; the message lists all of them.
        """
        return await self._load(name, ())

    async def called(self, name: str) -> Definition:
        """Return a workflow that an agent runs: only one of those listed. See the port `Workflows`."""
        known = await in_thread(self._config.workflows)
        if name not in known:
            hint = did_you_mean(name, known)
            raise UserMistake(f"There is no workflow {name!r}.", hint=hint)
        definition, handlers = await self.load(name)
        self._called[name] = (definition.digest, handlers)
        return definition

    async def handlers_of(self, definition: Definition) -> ScriptHandlers:
        """Return the handlers of one that was called; see the port `Workflows`."""
        name = definition.found_as
        digest, handlers = self._called.get(name, ("", None))
        if handlers is None or digest != definition.digest:
            # Found in another process, or one that it runs itself. Never the copy in the journal.
            digest = (await self.called(name)).digest
            handlers = self._called[name][1]
        if digest != definition.digest:
            raise UserMistake(
                f"The workflow {name!r} has changed since this run of it began.",
                hint="Run it again.",
            )
        return handlers

    def read(self, name: str, above: tuple[str, ...] = ()) -> Definition:
        """Return a workflow as its files say it is. Waits for the disk.

        Nothing is imported but the file of one that is written in Python: what it defines is what it does.

        Raises:
            MidstreamError: it cannot be read, or has problems.
        """
        file = self._python_file(name, above)
        if file is not None:
            return self._read_flow(self._flow_in(file), file, (*above, name))
        definition, _ = self._definition(name)
        inner = {other: self.read(other, (*above, name)) for other in _subs(definition)}
        return msgspec.structs.replace(definition, workflows=inner) if inner else definition

    def _read_flow(self, flow: Workflow, file: PythonFile, above: tuple[str, ...]) -> Definition:
        definition = self._checked_flow(flow, file).definition
        inner = {
            name: self._read_flow(flow.inner[name], _within(file), above)
            if name in flow.inner
            else self.read(name, above)
            for name in _subs(definition)
        }
        return msgspec.structs.replace(definition, workflows=inner)

    def problems(self, name: str) -> tuple[Problem, ...]:
        """Return what is wrong with a workflow that is written in Python. Imports its file.

        Raises:
            UserMistake: there is no workflow of that name.
        """
        path = self._config.workflow_path(name)
        try:
            file = self._python_file(name)
            assert file is not None, "asked for Python files alone"
            return self._flow_problems(self._flow_in(file), file)
        except MidstreamError as error:
            line, what = _placed_in(path, error.what)
            problem = unreadable(path, type(error)(what, hint=error.hint))
            return (msgspec.structs.replace(problem, line=line, column=min(line, 1)),)

    def _flow_problems(self, flow: Workflow, file: PythonFile) -> tuple[Problem, ...]:
        try:
            found = self._checked_flow(flow, file).warnings
        except HasProblems as error:
            found = error.problems
        inner = (self._flow_problems(each, _within(file)) for each in flow.inner.values())
        return (*found, *(problem for each in inner for problem in each))

    def _definition(self, name: str) -> tuple[Definition, LoadedWorkflow]:
        """Return a workflow without those it runs."""
        loaded, part = self._read(name)
        definition = msgspec.structs.replace(loaded.definition, found_as=name)
        definition = with_guidance(definition, self.guidance())
        for warning in loaded.warnings:
            self._config.notice(str(warning))
        self._offline_parts[definition.workflow.workflow_name] = part
        return definition, loaded

    async def load_file(
        self,
        path: Path,
        *,
        read: Callable[[Path], bytes] = read_capped,
        functions: Mapping[str, Handler] | None = None,
    ) -> tuple[Definition, ScriptHandlers]:
        """Return the workflow of a file that a program names, and its handlers.

        Args:
            path: the file `NAME.json`, with `NAME/script.py` beside it if it has a script.
            read: returns the bytes of a file.
            functions: its handlers by name, in place of a script.

        Raises:
            UserMistake: there is no such file.
            AuthorMistake: it has problems; the message lists all of them.
        """

        def loaded() -> tuple[Definition, LoadedWorkflow]:
            found = self._checked(path, read, functions)
            return with_guidance(found.definition, self.guidance()), found

        definition, found = await in_thread(loaded)
        return await self._with_handlers(definition, found, (), functions)

    async def written(
        self, flow: Workflow, file: PythonFile | None = None, above: tuple[str, ...] = ()
    ) -> tuple[Definition, ScriptHandlers]:
        """Return the definition of a workflow written in Python, checked, and its functions.

        Args:
            flow: the workflow.
            file: where it stands; None: in a program.
            above: the names of those that run it.

        Raises:
            AuthorMistake: it has problems; the message lists all of them.
        """
        loaded = await in_thread(lambda: self._checked_flow(flow, file))
        inner = {
            name: await self.written(each, None if file is None else _within(file), above)
            for name, each in flow.inner.items()
        }
        return await self._with_handlers(loaded.definition, loaded, above, flow.handlers, inner)

    async def _load(self, name: str, above: tuple[str, ...]) -> tuple[Definition, ScriptHandlers]:
        file = await in_thread(lambda: self._python_file(name, above))
        if file is not None:
            module = await load_module(file.path, file.source)
            return await self.written(flow_in(module, file.path, file.name), file, (*above, name))
        definition, loaded = await in_thread(lambda: self._definition(name))
        return await self._with_handlers(definition, loaded, (*above, name))

    async def _with_handlers(
        self,
        definition: Definition,
        loaded: LoadedWorkflow,
        above: tuple[str, ...],
        functions: Mapping[str, Handler] | None = None,
        given: Inner = NOTHING_INNER,
    ) -> tuple[Definition, ScriptHandlers]:
        """Return a workflow with those it runs, and the handlers of all of them."""
        if functions is not None:
            is_file = loaded.path.suffix == ".py"
            handlers = ScriptHandlers(
                functions, where=str(loaded.path) if is_file else "the program"
            )
        elif loaded.script is None:
            handlers = ScriptHandlers({}, where="The workflow, which has no script,")
        else:
            handlers = await load_script(loaded.script, loaded.script_source)
        names = _subs(definition)
        if not names:
            return definition, handlers
        inner = {
            other: given[other] if other in given else await self._load(other, above)
            for other in names
        }
        workflows = {other: found[0] for other, found in inner.items()}
        definition = msgspec.structs.replace(definition, workflows=workflows)
        return definition, handlers.around({other: found[1] for other, found in inner.items()})

    async def pinned(self, definition: Definition) -> ScriptHandlers:
        """Return the handlers of the script a run is pinned to, whatever the files are now.

        Raises:
            NotTrusted: the script may be of a workspace that nobody trusts now.
        """
        if definition.script is not None and self._config.is_untrusted:
            raise NotTrusted(
                "The run's own copy of its script is not run: the workspace is not trusted.",
                hint="Look at it and trust it with: midstream trust",
            )
        if definition.script is None:
            where = "The workflow the run is pinned to, which has no script,"
            handlers = ScriptHandlers({}, where=where)
        else:
            path = self._script_path(definition.found_as)
            module = await load_module(path, source_of(definition.script))
            flow = _pinned_flow(module, path, definition)
            if flow is not None:
                return await self._pinned_handlers(flow, path, definition)
            handlers = script_functions(module, path)
        inner = {name: await self.pinned(d) for name, d in definition.workflows.items()}
        return handlers.around(inner) if inner else handlers

    async def _pinned_handlers(
        self, flow: Workflow, path: Path, definition: Definition
    ) -> ScriptHandlers:
        self._take_in(flow.tools, str(path))
        inner = {
            name: await self._pinned_handlers(flow.inner[name], path, each)
            if name in flow.inner
            else await self.pinned(each)
            for name, each in definition.workflows.items()
        }
        return ScriptHandlers(flow.handlers, where=str(path), inner=inner)

    def changed_file(self, pinned: Definition) -> str:
        """Return how the file of a workflow in Python differs from what a run is pinned to, in a line.

        Those it runs are looked at, too. Nothing is imported: whether what stands there now may run is for
        a person to say. "" where it is the same, or no such file. Waits for the disk.
        """
        changed = self._changed_file(pinned)
        return changed or next(filter(None, map(self.changed_file, pinned.workflows.values())), "")

    def _changed_file(self, pinned: Definition) -> str:
        if pinned.script is None or not pinned.found_as:
            return ""
        try:
            file = self._python_file(pinned.found_as)
            now = None if file is None else text_of(file.source)
        except (MidstreamError, SyntaxError, UnicodeError):
            return ""  # loading it says why
        if file is None or now == pinned.script:
            return ""
        return script_change(pinned.script, now, file=shown_path(file.path))

    def offline_part(self, workflow: str) -> Json:
        """Return what the offline model plays of a loaded workflow, None if it has no such part.

        Raises:
            AuthorMistake: it has one that cannot be read.
        """
        part = self._offline_parts.get(workflow)
        if isinstance(part, AuthorMistake):
            raise part
        return part

    def _read(self, name: str) -> tuple[LoadedWorkflow, Json | AuthorMistake]:
        path = self._config.workflow_path(name)
        loaded = self._checked(path, self._config.read)
        return loaded, self._read_offline(path.with_suffix("") / OFFLINE_NAME)

    def _checked(
        self,
        path: Path,
        read: Callable[[Path], bytes],
        functions: Collection[str] | None = None,
    ) -> LoadedWorkflow:
        return load_workflow(
            path,
            roles=self._config.roles(),
            tools=self._tools,
            read=read,
            workflows=self._config.workflows(),
            functions=functions,
        )

    def _python_file(self, name: str, above: tuple[str, ...] = ()) -> PythonFile | None:
        """Return the file of a workflow written in Python, as read and trusted; None: it is a JSON one.

        Raises:
            NotTrusted: it may be of a workspace that nobody trusts now.
            UserMistake, WorldTrouble: there is none, or it cannot be read.
            AuthorMistake: it is run by one that runs it, or a state names it by its path.
        """
        if name in above:
            circle = " -> ".join((*above[above.index(name) :], name))
            raise AuthorMistake(
                f"These workflows run each other without end: {circle}.",
                hint="Take one of these calls out.",
            )
        named = python_file(name)
        if named is not None and above:
            raise AuthorMistake(
                f"{above[-1]} runs {name}, a file, by its path.",
                hint="Put it into a folder workflows, and name it without .py.",
            )
        path = self._config.workflow_path(name)
        if path.suffix != ".py":
            return None
        workspace = self._config.workspace
        if self._config.is_untrusted and _lies_in(path, workspace):
            raise NotTrusted(
                f"{shown_path(path)} is not run: the workspace is not trusted.",
                hint="Look at it and trust it with: midstream trust",
            )
        inside = path.relative_to(workspace) if path.is_relative_to(workspace) else path
        found_as = name if named is None else f"{inside}:{named[1]}".removesuffix(":")
        return PythonFile(
            path=path,
            name="" if named is None else named[1],
            found_as=found_as,
            source=self._config.read(path),
        )

    def _flow_in(self, file: PythonFile) -> Workflow:
        return flow_in(module_of(file.path, file.source), file.path, file.name)

    def _checked_flow(self, flow: Workflow, file: PythonFile | None) -> LoadedWorkflow:
        """Return a workflow written in Python by the checks of a file, without those it runs."""
        path = Path(f"{flow.name}.json") if file is None else file.path
        self._take_in(flow.tools, "" if file is None else str(path))
        flow.check()
        document = msgspec.json.encode(plain(f"the workflow {flow.name}", flow.document))
        loaded = load_workflow(
            path,
            roles={**self._config.roles(), **flow.roles},
            tools=self._tools,
            read=lambda _: document,
            workflows=[*self._config.workflows(), *flow.inner],
            functions=flow.handlers,
            placed=partial(_placed, flow, path),
        )
        definition = with_guidance(loaded.definition, self.guidance())
        if file is None:
            definition = msgspec.structs.replace(definition, digest=flow.digest)
        else:
            definition = msgspec.structs.replace(
                definition,
                digest=digest(document, file.source),
                script=text_of(file.source),
                found_as=file.found_as,
            )
            for warning in loaded.warnings:
                self._config.notice(str(warning))
            part = self._read_offline(path.with_suffix("") / OFFLINE_NAME)
            self._offline_parts[flow.name] = part
        return msgspec.structs.replace(loaded, definition=definition)

    def _script_path(self, name: str) -> Path:
        """Return where the script of a workflow stands, or stood."""
        try:
            path = self._config.workflow_path(name)
            return path if path.suffix == ".py" else script_beside(path)
        except UserMistake:
            folder = self._config.workspace / WORKSPACE_FOLDER / "workflows"
            return script_beside(folder / f"{name}.json")

    def _read_offline(self, path: Path) -> Json | AuthorMistake:
        """Return an offline part. What is wrong with it concerns the offline model alone."""
        try:
            text, problems = decoded(self._config.read(path), shown_path(path))
        except FileMissing:
            return None
        root, report = read_file(text, shown_path(path))
        problems = problems or report.problems
        if problems or root is None:
            return AuthorMistake(f"{shown_path(path)} cannot be read:\n{as_text(problems)}")
        return root.value


def _subs(definition: Definition) -> list[str]:
    """Return the names of the workflows a workflow runs, sorted."""
    states = every_state(definition.workflow.states)
    return sorted({sub.name for each in states if (sub := sub_workflow(each))})


# --- workflows written in Python ------------------------------------------------------------------


def flow_in(module: ModuleType, path: Path, name: str = "") -> Workflow:
    """Return the workflow of that name in a module; "": the one called `flow`, or the only one.

    One that another of them runs does not count as a second one.

    Raises:
        AuthorMistake: there is none, there are several, or the name is that of something else.
    """
    file, flows = shown_path(path), _flows_of(module)
    wanted = vars(module).get(name or "flow")
    if isinstance(wanted, Workflow):
        return wanted
    if name and name not in vars(module):
        raise AuthorMistake(f"{file} has no {name!r}.", hint=did_you_mean(name, flows))
    if name:
        raise AuthorMistake(
            f"{name!r} in {file} is no Workflow, but of the type {type(wanted).__name__}.",
            hint=f"Workflows in it: {', '.join(sorted(flows))}." if flows else _MADE,
        )
    run = {id(inner) for each in flows.values() for inner in each.inner.values()}
    first = [each for each in flows if id(flows[each]) not in run]
    if len(first) == 1:
        return flows[first[0]]
    if not flows:
        raise AuthorMistake(f"{file} has no workflow.", hint=_MADE)
    raise AuthorMistake(
        f"{file} has several workflows: {', '.join(sorted(flows))}.",
        hint=f"Name one of them ({file}:{min(flows)}), or call one of them flow.",
    )


_MADE: Final = 'Make one at its top level: flow = midstream.Workflow("NAME").'


def _flows_of(module: ModuleType) -> dict[str, Workflow]:
    """Return the workflows of a module by the names they have there, each once, `flow` first."""
    found: dict[int, str] = {}
    for name in sorted(vars(module), key=lambda name: name != "flow"):
        if isinstance(vars(module)[name], Workflow):
            found.setdefault(id(vars(module)[name]), name)
    return {name: vars(module)[name] for name in found.values()}


def _pinned_flow(module: ModuleType, path: Path, definition: Definition) -> Workflow | None:
    """Return the workflow a run is pinned to where that was written in Python, else None."""
    named = python_file(definition.found_as)
    if named is not None:
        return flow_in(module, path, named[1])
    name = definition.workflow.workflow_name
    return next((each for each in _flows_of(module).values() if each.name == name), None)


def _lies_in(path: Path, workspace: Path) -> bool:
    """Return whether a file stands in a folder, by its name or by where that leads."""
    return path.is_relative_to(workspace) or path.resolve().is_relative_to(workspace.resolve())


def _within(file: PythonFile) -> PythonFile:
    """Return the place of a workflow that another one in the same file runs: no name leads to it."""
    return msgspec.structs.replace(file, found_as="")


_OF_STATE: Final = re.compile(r"\$\.states\[(\d+)\](.*)", re.DOTALL)


def _placed(flow: Workflow, path: Path, problem: Problem) -> Problem:
    """Return a problem of what would stand in the file, said of the function it comes from."""
    states = [str(each["name"]) for each in flow.document["states"]]
    found = _OF_STATE.fullmatch(problem.path)
    file, line = (shown_path(path) if path.suffix == ".py" else f"the workflow {flow.name}"), 0
    said = problem.path
    if found is not None and (state := states[int(found[1])]) in flow.places:
        written, line = flow.places[state]
        file, said = shown_path(Path(written)), f"{state}{found[2]}"
    return msgspec.structs.replace(problem, file=file, line=line, column=min(line, 1), path=said)


def _placed_in(path: Path, what: str) -> tuple[int, str]:
    """Return the line that a message about a file begins with, 0 for none, and the rest of it."""
    found = re.match(rf"{re.escape(str(path))}:(?:(\d+):)? (.*)", what, re.DOTALL)
    return (0, what) if found is None else (int(found[1] or 0), found[2])
