"""WorkflowContext: one shared conversation, as a handler reads and changes it.

A handler works on a copy. What it does is kept as `ContextChange`s, which become part of the fact
that the handler ran: a handler that raises, or is halted, has changed nothing.
"""

from collections.abc import Sequence

import msgspec

from midstream.core.append_only import logged
from midstream.core.conversation import Message, Side, trimmed
from midstream.core.events import ContextChange
from midstream.core.fold.fold_contexts import starting_messages
from midstream.language.names import Outcome
from midstream.language.spec import Context
from midstream.runtime.json_values import MAX_BYTES
from midstream.runtime.user_words import readable


class ContextMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as handlers see it: who speaks, which agent wrote it, and the words."""

    role: Side
    content: str
    author: str = ""
    interrupted: bool = False


class ContextToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool call of an agent came to. Only `completed` ones hold what the tool measured or read."""

    name: str
    outcome: Outcome
    text: str
    author: str = ""


class WorkflowContext:
    """One conversation. `add_message` and `clear` take effect when the handler returns."""

    __slots__ = ("_changes", "_messages", "_spec", "name")

    def __init__(
        self, spec: Context, messages: Sequence[Message], changes: list[ContextChange]
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._messages = messages
        self._changes = changes

    @property
    def messages(self) -> list[ContextMessage]:
        """Return the conversation, the oldest message first; messages of tool calls only are left out."""
        return [
            ContextMessage(
                role=message.role,
                content=message.text,
                author=message.author,
                interrupted=message.interrupted,
            )
            for message in self._messages
            if message.text
        ]

    @property
    def tool_results(self) -> list[ContextToolResult]:
        """Return what the agents' tool calls in this conversation came to, the oldest first."""
        return [
            ContextToolResult(
                name=call.name, outcome=result.outcome, text=result.text, author=message.author
            )
            for message in self._messages
            for call, result in zip(message.calls, message.results, strict=True)
        ]

    def add_message(self, role: Side, content: str) -> None:
        """Add a message at the end.

        Raises:
            ValueError: `role` is not system, user or assistant, or `content` is no text or longer
                than any conversation.
        """
        if role not in ("system", "user", "assistant"):
            raise ValueError(f"role is {role!r}; expected 'system', 'user' or 'assistant'")
        if not isinstance(content, str):
            raise ValueError(f"content is {type(content).__name__}; expected text")
        if len(content) > MAX_BYTES:
            raise ValueError(f"content has {len(content):,} characters; at most {MAX_BYTES:,} join")
        content = readable(content)
        self._changes.append(
            ContextChange(context=self.name, action="add", role=role, text=content)
        )
        added = logged(self._messages, Message(role=role, text=content))
        self._messages = trimmed(added, self._spec.max_length)

    def clear(self) -> None:
        """Go back to the starting messages."""
        self._changes.append(ContextChange(context=self.name, action="clear"))
        self._messages = starting_messages(self._spec)
