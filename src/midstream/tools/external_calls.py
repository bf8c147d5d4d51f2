"""What a call of an external agent would do, by what the agent says of it.

Such an agent makes its calls itself; where it asks first, they are judged as any call is, by capabilities.
What it says is all there is to go by, so whatever is not understood is asked about.
"""

from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.names import EXTERNAL_CALL
from midstream.runtime.ports import ToolContext
from midstream.safety.capability import Capability
from midstream.safety.command_line import outside, read_command
from midstream.system.diff import shown_change
from midstream.system.workspace_paths import locate, requests_for
from midstream.tools.base import Planned, Tool, tool, tool_from
from midstream.tools.web_addresses import read_address

_LOOKS = ("read", "search", "think")
_CHANGES = ("edit", "delete", "move")


@tool(effect="once", name=EXTERNAL_CALL)
def external_agent_call(
    kind: str,
    title: str,
    paths: list[str],
    command: str,
    url: str,
    texts: list[dict[str, str | None]],
    context: ToolContext,
) -> str:
    """Make a call: nobody but the external agent itself can."""
    raise UserMistake("The agent makes its calls itself.", hint="This is only ever judged.")


def _plan(
    kind: str,
    title: str,
    paths: list[str],
    command: str,
    url: str,
    texts: list[dict[str, str | None]],
    context: ToolContext,
) -> Planned:
    requests: list[Capability] = []
    for path in dict.fromkeys(paths):
        requests += _of_path(kind, path, context)
    for path in dict.fromkeys(str(text.get("path")) for text in texts):
        requests += _of_path("edit", path, context)  # whatever it calls itself
    if command:
        run = read_command(command)
        requests += [run, outside(run)]
    if url:
        requests.append(_of_url(url))
    if kind not in (*_LOOKS, *_CHANGES, "execute", "fetch") or (
        kind not in _LOOKS and not requests
    ):
        requests.append(Capability(kind="tool", target=f"{EXTERNAL_CALL} {kind}"))
    title = " ".join(title.split())
    shows = [title, *(f"$ {line}" for line in command.splitlines() if line != title)]
    if not texts:
        shows += [path for path in paths if path not in title]
    shows += [_change(text) for text in texts]
    return Planned(requests=tuple(dict.fromkeys(requests)), shows="\n".join(filter(None, shows)))


def _of_path(kind: str, path: str, context: ToolContext) -> tuple[Capability, ...]:
    try:
        return requests_for(locate(context.workspace, path), "read" if kind in _LOOKS else "write")
    except MidstreamError:
        # Out of the workspace, or no honest name: no rule for files of the workspace is about it.
        return (Capability(kind="tool", target=f"{EXTERNAL_CALL} {kind} {path}"),)


def _of_url(url: str) -> Capability:
    try:
        return read_address(url).request
    except MidstreamError:
        return Capability(kind="tool", target=f"{EXTERNAL_CALL} fetch {url}")


def _change(text: dict[str, str | None]) -> str:
    old, new = text.get("old"), text.get("new") or ""
    before = None if old is None else old.encode("utf-8", "surrogatepass")
    return shown_change(str(text.get("path")), before, new.encode("utf-8", "surrogatepass"))


TOOLS: tuple[Tool, ...] = (tool_from(external_agent_call, plan=_plan),)
