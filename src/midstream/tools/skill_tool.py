"""`load_skill`: how people do a thing here, read by an agent that is about to do it."""

from collections.abc import Callable
from typing import Annotated

import msgspec

from midstream.language.names import LOAD_SKILL
from midstream.tools.base import Tool, tool, tool_from


def skill_tool(read: Callable[[str, str], str]) -> Tool:
    """Return the tool. `read` returns the text of a skill by its name, or that of a file beside it."""

    @tool(effect="read", timeout_s=30, name=LOAD_SKILL)
    def load_skill(
        name: Annotated[str, msgspec.Meta(min_length=1, description="The skill's name.")],
        file: Annotated[
            str, msgspec.Meta(description="A file beside it that it names; default: the skill.")
        ] = "",
    ) -> str:
        """Read a skill: how a kind of task is done here. It is a file's words, and allows nothing."""
        return read(name, file)

    return tool_from(load_skill)
