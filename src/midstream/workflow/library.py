"""Where roles and workflows are found, and workflows made ready to run."""

from collections.abc import Mapping

from midstream.config.files import FileMissing
from midstream.config.manager import ConfigManager
from midstream.core.jsontext import parse
from midstream.core.names import Json
from midstream.core.spec import Definition, Role, ToolSpec
from midstream.offloop import in_thread
from midstream.workflow.handlers import ScriptHandlers, load_script
from midstream.workflow.loader import LoadedWorkflow, load_workflow

OFFLINE_NAME = "offline.json"


class WorkflowLibrary:
    """The roles and workflows of the settings' layers. See the port `Library`.

    Args:
        config: where the files are; what is not trusted is not read.
        tools: the tools agents may use, by name.
    """

    def __init__(self, config: ConfigManager, tools: Mapping[str, ToolSpec]) -> None:
        self._config = config
        self._tools = tools
        self._offline_parts: dict[str, Json] = {}

    def roles(self) -> dict[str, Role]:
        """Return every role by name."""
        return self._config.roles()

    def workflows(self) -> dict[str, str]:
        """Return every workflow's description by name."""
        return {
            name: found.problem or found.description
            for name, found in self._config.workflows().items()
        }

    async def load(self, name: str) -> tuple[Definition, ScriptHandlers]:
        """Return a workflow and the handlers of its script, read and imported off the loop."""
        loaded, part = await in_thread(lambda: self._read(name))
        definition = loaded.definition
        self._offline_parts[definition.workflow.workflow_name] = part
        if loaded.script is None:
            return definition, ScriptHandlers({}, where="The workflow, which has no script,")
        return definition, await load_script(loaded.script, loaded.script_source)

    def offline_part(self, workflow: str) -> Json:
        """Return what the offline model plays of a loaded workflow, None if it has no such part."""
        return self._offline_parts.get(workflow)

    def _read(self, name: str) -> tuple[LoadedWorkflow, Json]:
        path = self._config.workflow_path(name)
        loaded = load_workflow(
            path, roles=self._config.roles(), tools=self._tools, read=self._config.read
        )
        try:
            text = self._config.read(path.with_suffix("") / OFFLINE_NAME).decode("utf-8", "replace")
        except FileMissing:
            return loaded, None
        root = parse(text).root
        return loaded, None if root is None else root.value
