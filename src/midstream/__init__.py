"""midstream: multi-agent workflows that run in the background and can be talked to while they run.

    import midstream

    output = midstream.run_workflow("code_architecture_review", answers=["1"])

or, on a loop of your own, `WorkflowStateMachine`: see `docs/library.md`. Names are loaded when they
are first used, so that importing midstream imports no adapter.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstream.app.ai_coder_console import AICoderConsole
    from midstream.app.commands.handler import CommandHandler
    from midstream.cli.headless import run_workflow
    from midstream.config.manager import ConfigManager
    from midstream.core.notices import Envelope
    from midstream.core.question import Decision
    from midstream.core.run import Run
    from midstream.language.errors import (
        AuthorMistake,
        JournalMoved,
        MidstreamError,
        NotTrusted,
        OurBug,
        UserMistake,
        WorldTrouble,
    )
    from midstream.models.api_client import AIAPIClient
    from midstream.runtime.agent import WorkflowAgent
    from midstream.runtime.context import WorkflowContext
    from midstream.runtime.ports import World
    from midstream.runtime.state_machine import WorkflowStateMachine
    from midstream.tools.manager import ToolManager
    from midstream.tools.user_tools import tool
    from midstream.tui.interface import ConsoleInterface

__version__ = "0.1.0"

_HOMES = {
    "AIAPIClient": "models.api_client",
    "AICoderConsole": "app.ai_coder_console",
    "AuthorMistake": "language.errors",
    "CommandHandler": "app.commands.handler",
    "ConfigManager": "config.manager",
    "ConsoleInterface": "tui.interface",
    "Decision": "core.question",
    "Envelope": "core.notices",
    "JournalMoved": "language.errors",
    "MidstreamError": "language.errors",
    "NotTrusted": "language.errors",
    "OurBug": "language.errors",
    "Run": "core.run",
    "ToolManager": "tools.manager",
    "UserMistake": "language.errors",
    "WorkflowAgent": "runtime.agent",
    "WorkflowContext": "runtime.context",
    "WorkflowStateMachine": "runtime.state_machine",
    "World": "runtime.ports",
    "WorldTrouble": "language.errors",
    "run_workflow": "cli.headless",
    "tool": "tools.user_tools",
}

__all__ = [
    "AIAPIClient",
    "AICoderConsole",
    "AuthorMistake",
    "CommandHandler",
    "ConfigManager",
    "ConsoleInterface",
    "Decision",
    "Envelope",
    "JournalMoved",
    "MidstreamError",
    "NotTrusted",
    "OurBug",
    "Run",
    "ToolManager",
    "UserMistake",
    "WorkflowAgent",
    "WorkflowContext",
    "WorkflowStateMachine",
    "World",
    "WorldTrouble",
    "__version__",
    "run_workflow",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
