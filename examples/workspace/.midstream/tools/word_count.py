"""A tool of this workspace: agents may call it, and so may a state (`"tool": "word_count"`)."""

from midstream import tool
from midstream.runtime.ports import ToolContext


@tool(effect="read", timeout_s=10)
def word_count(path: str, context: ToolContext) -> int:
    """Count the words of a text file of the workspace.

    Args:
        path: the file, from the workspace's folder.
    """
    # The context is midstream's to give: the model neither sees it nor fills it in.
    file = (context.workspace / path).resolve()
    if not file.is_relative_to(context.workspace.resolve()):
        raise ValueError(f"{path} is not in the workspace.")
    return len(file.read_text(encoding="utf-8").split())
