"""The world as small protocols: what the rooms above the core need, and adapters give.

An adapter is done when it passes the port's contract in `midstream.testing.contracts`.
"""

from midstream.ports.desk import Desk, OwnCommandEnded, Status, Submitted
from midstream.ports.face import Face, InFull
from midstream.ports.machine import Engine, Listener, Machine, Receipt
from midstream.ports.mcp import McpAsked, McpOperator
from midstream.ports.models import Model, ModelReply, ModelRequest, Models, ReplyListener
from midstream.ports.operator import Operator
from midstream.ports.past import PastOperator
from midstream.ports.permits import Permits
from midstream.ports.runs import Choice, RunsOperator, SessionsOperator
from midstream.ports.store import Journal, Shelf
from midstream.ports.tools import (
    ChangedFile,
    Review,
    ToolContext,
    ToolOutcome,
    Tools,
    Validator,
)
from midstream.ports.workflows import HandlerResult, Handlers, Library
from midstream.ports.world import Clock, World

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
