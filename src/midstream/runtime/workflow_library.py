"""Where roles and workflows are found, and workflows made ready to run."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from midstream.config.agents_file import guidance_here
from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path
from midstream.core.guidance import with_guidance
from midstream.language.errors import AuthorMistake, NotTrusted, UserMistake
from midstream.language.names import Json
from midstream.language.plan import sub_workflow
from midstream.language.problem import as_text
from midstream.language.shape import read_file
from midstream.language.spec import Definition, Guidance, Role, ToolSpec
from midstream.runtime.handlers import Handler, ScriptHandlers, load_script
from midstream.runtime.loader import (
    OFFLINE_NAME,
    LoadedWorkflow,
    decoded,
    load_workflow,
    script_beside,
)
from midstream.runtime.script_outline import every_state, source_of
from midstream.system.offloop import in_thread

UNTRUSTED = "not trusted as it stands: /trust shows it"


Inner: TypeAlias = Mapping[str, tuple[Definition, ScriptHandlers]]
"""Workflows that others run, by name, each with the handlers of its script."""

NOTHING_INNER: Final[Inner] = MappingProxyType({})
NO_ROLES: Final[Mapping[str, Role]] = MappingProxyType({})


class WorkflowLibrary:
    """The roles and workflows of the settings' layers.

    Args:
        config: where the files are; what is not trusted is not read.
        tools: the tools agents may use, by name.
    """

    def __init__(self, config: ConfigManager, tools: Mapping[str, ToolSpec]) -> None:
        self._config = config
        self._tools = tools
        self._offline_parts: dict[str, Json | AuthorMistake] = {}

    def roles(self) -> dict[str, Role]:
        """Return every role by name."""
        return self._config.roles()

    def guidance(self) -> tuple[Guidance, ...]:
        """Return the words of the AGENTS.md files that count here."""
        return guidance_here(self._config)

    def workflows(self) -> dict[str, str]:
        """Return every workflow's description by name."""
        found = self._config.workflows()
        untrusted = dict.fromkeys(self._config.untrusted_workflows(), UNTRUSTED)
        return untrusted | {name: one.problem or one.description for name, one in found.items()}

    async def load(self, name: str) -> tuple[Definition, ScriptHandlers]:
        """Return a workflow and the handlers of its script, read and imported off the loop.

        Raises:
            UserMistake: there is no workflow of that name.
            AuthorMistake: its files have problems; the message lists all of them.
        """
        return await self._load(name, ())

    def read(self, name: str, above: tuple[str, ...] = ()) -> Definition:
        """Return a workflow as its files say it is; nothing of it is imported. Waits for the disk.

        Raises:
            MidstreamError: it cannot be read, or has problems.
        """
        definition, _ = self._definition(name, above)
        inner = {other: self.read(other, (*above, name)) for other in _subs(definition)}
        return msgspec.structs.replace(definition, workflows=inner) if inner else definition

    def _definition(self, name: str, above: tuple[str, ...]) -> tuple[Definition, LoadedWorkflow]:
        """Return a workflow without those it runs."""
        if name in above:
            circle = " -> ".join((*above[above.index(name) :], name))
            raise AuthorMistake(
                f"These workflows run each other without end: {circle}.",
                hint="Take one of these calls out.",
            )
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
        roles: Mapping[str, Role] = NO_ROLES,
        inner: Inner = NOTHING_INNER,
    ) -> tuple[Definition, ScriptHandlers]:
        """Return the workflow of a file that a program names, and its handlers.

        Args:
            path: the file `NAME.json`, with `NAME/script.py` beside it if it has a script.
            read: returns the bytes of a file.
            functions: its handlers by name, in place of a script.
            roles: roles beside those of the settings.
            inner: workflows it may run beside those of the settings, by name, with their handlers.

        Raises:
            UserMistake: there is no such file.
            AuthorMistake: it has problems; the message lists all of them.
        """

        def loaded() -> tuple[Definition, LoadedWorkflow]:
            found = self._checked(path, read, functions, roles, inner)
            return with_guidance(found.definition, self.guidance()), found

        definition, found = await in_thread(loaded)
        return await self._with_handlers(definition, found, (), functions, inner)

    async def _load(self, name: str, above: tuple[str, ...]) -> tuple[Definition, ScriptHandlers]:
        definition, loaded = await in_thread(lambda: self._definition(name, above))
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
            handlers = ScriptHandlers(functions, where="the program")
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
            source = source_of(definition.script)
            handlers = await load_script(self._script_path(definition.found_as), source)
        inner = {name: await self.pinned(d) for name, d in definition.workflows.items()}
        return handlers.around(inner) if inner else handlers

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
        roles: Mapping[str, Role] = NO_ROLES,
        inner: Collection[str] = (),
    ) -> LoadedWorkflow:
        return load_workflow(
            path,
            roles={**self._config.roles(), **roles},
            tools=self._tools,
            read=read,
            workflows=[*self._config.workflows(), *inner],
            functions=functions,
        )

    def _script_path(self, name: str) -> Path:
        """Return where the script of a workflow stands, or stood."""
        try:
            return script_beside(self._config.workflow_path(name))
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
