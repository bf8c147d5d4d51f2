"""The world as small protocols: what the rooms above the core need, and adapters give.

An adapter is done when it passes the port's contract in `midstream.testing.contracts`.
"""

from midstream.runtime.ports.machine import Engine, Listener, Machine, Receipt
from midstream.runtime.ports.mcp import McpAsked, McpOperator
from midstream.runtime.ports.models import Model, ModelReply, ModelRequest, Models, ReplyListener
from midstream.runtime.ports.operator import Operator
from midstream.runtime.ports.past import PastOperator
from midstream.runtime.ports.permits import Permits
from midstream.runtime.ports.runs import Choice, RunsOperator, SessionsOperator
from midstream.runtime.ports.session import Desk, OwnCommandEnded, Status, Submitted
from midstream.runtime.ports.store import Journal, Shelf
from midstream.runtime.ports.tools import (
    ChangedFile,
    Review,
    ToolContext,
    ToolOutcome,
    Tools,
    Validator,
)
from midstream.runtime.ports.ui import Face, InFull
from midstream.runtime.ports.workflows import HandlerResult, Handlers, Library
from midstream.runtime.ports.world import Clock, World

__all__ = [
    "ChangedFile",
    "Choice",
    "Clock",
    "Desk",
    "Engine",
    "Face",
    "HandlerResult",
    "Handlers",
    "InFull",
    "Journal",
    "Library",
    "Listener",
    "Machine",
    "McpAsked",
    "McpOperator",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Models",
    "Operator",
    "OwnCommandEnded",
    "PastOperator",
    "Permits",
    "Receipt",
    "ReplyListener",
    "Review",
    "RunsOperator",
    "SessionsOperator",
    "Shelf",
    "Status",
    "Submitted",
    "ToolContext",
    "ToolOutcome",
    "Tools",
    "Validator",
    "World",
]
