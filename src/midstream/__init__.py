"""midstream: multi-agent workflows that run in the background and can be talked to while they run.

    import midstream

    async with midstream.open() as engine:
        run = await engine.start("code_architecture_review")
        await run.say("look at the tests, too")

or, without an event loop, `midstream.run(...)` and `midstream.open_sync()`: see `docs/library.md`. Names
are loaded when they are first used, so that importing midstream imports no adapter. The events of a run
are here by their class names, such as `midstream.TextDelta`: see `docs/events.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstream.api.engine import Engine, RunInfo, open
    from midstream.api.run_handle import RunHandle
    from midstream.api.sync import SyncEngine, SyncRun, open_sync, run
    from midstream.app.ai_coder_console import AICoderConsole
    from midstream.app.commands.handler import CommandHandler
    from midstream.config.manager import ConfigManager
    from midstream.core.events import (
        AgentFailed,
        AgentResponded,
        AnswerRefused,
        BranchFailed,
        BranchFinished,
        BranchStarted,
        BranchStopped,
        BudgetReached,
        CallEdited,
        CallPlanned,
        CompactionBegan,
        CompactionEnded,
        ConversationCompacted,
        DefinitionChanged,
        FileWritten,
        HandlerRan,
        HookRan,
        InputDisposed,
        InputReceived,
        Interrupted,
        LimitsSet,
        ModeTold,
        PermissionGranted,
        PermissionRevoked,
        Prompted,
        QuestionAnswered,
        QuestionAsked,
        QuestionExpired,
        QuestionSuperseded,
        ReplyCut,
        ReplyShown,
        ResultsTrimmed,
        RunFailed,
        RunFinished,
        RunRecovered,
        RunRenamed,
        RunResumed,
        RunStarted,
        RunStopped,
        RunSuspended,
        StateFailed,
        StateRetried,
        StateTransition,
        TimerSet,
        TimeSpent,
        TodoEdited,
        ToolCalled,
        ToolEnded,
        ToolReturned,
        WordsJoined,
        WorkDone,
        WorkflowOutput,
    )
    from midstream.core.notices import (
        AgentThinking,
        BackgroundEnded,
        Envelope,
        FileChanged,
        JournalStalled,
        JournalWorks,
        ListenerFailed,
        RunTaken,
        TextDelta,
        ThinkingDelta,
        ToolProgress,
    )
    from midstream.core.question import Decision, Question
    from midstream.core.run import Run
    from midstream.language.errors import (
        AuthorMistake,
        DefinitionDiffers,
        JournalFull,
        JournalMoved,
        MidstreamError,
        NotTrusted,
        OurBug,
        RunOwned,
        UserMistake,
        WorldTrouble,
    )
    from midstream.models.api_client import AIAPIClient
    from midstream.runtime.agent import WorkflowAgent
    from midstream.runtime.context import WorkflowContext
    from midstream.runtime.ports import Receipt, World
    from midstream.runtime.python_workflow import StateRun, Workflow
    from midstream.runtime.state_functions import stop
    from midstream.runtime.state_machine import WorkflowStateMachine
    from midstream.tools.manager import ToolManager
    from midstream.tools.user_tools import tool
    from midstream.tui.interface import ConsoleInterface

from midstream._version import __version__

_EXPORTS = {
    "api.engine": ("Engine", "RunInfo", "open"),
    "runtime.python_workflow": ("StateRun", "Workflow"),
    "runtime.state_functions": ("stop",),
    "api.run_handle": ("RunHandle",),
    "api.sync": ("SyncEngine", "SyncRun", "open_sync", "run"),
    "app.ai_coder_console": ("AICoderConsole",),
    "app.commands.handler": ("CommandHandler",),
    "config.manager": ("ConfigManager",),
    "core.question": ("Decision", "Question"),
    "core.run": ("Run",),
    "models.api_client": ("AIAPIClient",),
    "runtime.agent": ("WorkflowAgent",),
    "runtime.context": ("WorkflowContext",),
    "runtime.ports": ("Receipt", "World"),
    "runtime.state_machine": ("WorkflowStateMachine",),
    "tools.manager": ("ToolManager",),
    "tools.user_tools": ("tool",),
    "tui.interface": ("ConsoleInterface",),
}
"""What these modules give; all else is an event of a run or an error."""

_HOMES = {name: (module,) for module, names in _EXPORTS.items() for name in names}
_OF_EVENTS_AND_ERRORS = ("language.errors", "core.notices", "core.events")

__all__ = [
    "AIAPIClient",
    "AICoderConsole",
    "AgentFailed",
    "AgentResponded",
    "AgentThinking",
    "AnswerRefused",
    "AuthorMistake",
    "BackgroundEnded",
    "BranchFailed",
    "BranchFinished",
    "BranchStarted",
    "BranchStopped",
    "BudgetReached",
    "CallEdited",
    "CallPlanned",
    "CommandHandler",
    "CompactionBegan",
    "CompactionEnded",
    "ConfigManager",
    "ConsoleInterface",
    "ConversationCompacted",
    "Decision",
    "DefinitionChanged",
    "DefinitionDiffers",
    "Engine",
    "Envelope",
    "FileChanged",
    "FileWritten",
    "HandlerRan",
    "HookRan",
    "InputDisposed",
    "InputReceived",
    "Interrupted",
    "JournalFull",
    "JournalMoved",
    "JournalStalled",
    "JournalWorks",
    "LimitsSet",
    "ListenerFailed",
    "MidstreamError",
    "ModeTold",
    "NotTrusted",
    "OurBug",
    "PermissionGranted",
    "PermissionRevoked",
    "Prompted",
    "Question",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionExpired",
    "QuestionSuperseded",
    "Receipt",
    "ReplyCut",
    "ReplyShown",
    "ResultsTrimmed",
    "Run",
    "RunFailed",
    "RunFinished",
    "RunHandle",
    "RunInfo",
    "RunOwned",
    "RunRecovered",
    "RunRenamed",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "RunSuspended",
    "RunTaken",
    "StateFailed",
    "StateRetried",
    "StateRun",
    "StateTransition",
    "SyncEngine",
    "SyncRun",
    "TextDelta",
    "ThinkingDelta",
    "TimeSpent",
    "TimerSet",
    "TodoEdited",
    "ToolCalled",
    "ToolEnded",
    "ToolManager",
    "ToolProgress",
    "ToolReturned",
    "UserMistake",
    "WordsJoined",
    "WorkDone",
    "Workflow",
    "WorkflowAgent",
    "WorkflowContext",
    "WorkflowOutput",
    "WorkflowStateMachine",
    "World",
    "WorldTrouble",
    "__version__",
    "open",
    "open_sync",
    "run",
    "stop",
    "tool",
]


def __getattr__(name: str) -> Any:
    for home in _HOMES.get(name, _OF_EVENTS_AND_ERRORS) if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
