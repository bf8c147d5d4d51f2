"""A run on one line, kept up to date fact by fact: what a listing shows without folding runs."""

from typing import Literal, TypeAlias

import msgspec

from midstream.core.events import (
    DefinitionChanged,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    QuestionSuperseded,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    RunStopped,
    RunSuspended,
    StateTransition,
)
from midstream.core.notices import Envelope
from midstream.core.spec import Definition

ListedStatus: TypeAlias = Literal["running", "suspended", "finished", "failed", "stopped"]


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is listed of a run. Times are in seconds since 1970.

    `asking` are the ids of the open questions a person is asked; `awaits_input`: the run waits for
    words without asking. `found_as` is the name the workflow is loaded by.
    """

    workflow: str = ""
    found_as: str = ""
    kind: Literal["workflow", "chat"] = "workflow"
    workspace: str = ""
    state: str = ""
    status: ListedStatus = "running"
    started_at: float = 0.0
    updated_at: float = 0.0
    asking: tuple[str, ...] = ()
    awaits_input: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, in whatever way."""
        return self.status in ("finished", "failed", "stopped")


def summarised(summary: Summary, envelope: Envelope) -> Summary:
    """Return the summary after one more fact."""
    kind = type(envelope.event)
    changes = _changes(summary, envelope) if kind in _TELLING else {}
    return msgspec.structs.replace(summary, updated_at=envelope.at, **changes)


_TELLING = frozenset(
    {
        DefinitionChanged,
        QuestionAnswered,
        QuestionAsked,
        QuestionExpired,
        QuestionSuperseded,
        RunFailed,
        RunFinished,
        RunResumed,
        RunStarted,
        RunStopped,
        RunSuspended,
        StateTransition,
    }
)
"""The facts a list of runs says anything of."""


def _changes(summary: Summary, envelope: Envelope) -> dict[str, object]:
    match envelope.event:
        case StateTransition(target=target):
            return {} if envelope.event.branch else {"state": target}
        case QuestionAsked(kind="input"):
            return {"awaits_input": True}
        case QuestionAsked(question_id=id):
            return {"asking": (*summary.asking, id)}
        case (
            QuestionAnswered(question_id=id)
            | QuestionSuperseded(question_id=id)
            | QuestionExpired(question_id=id, stays=False)
        ):
            if id not in summary.asking:
                return {"awaits_input": False}
            return {"asking": tuple(asked for asked in summary.asking if asked != id)}
        case RunSuspended():
            return {"status": "suspended"}
        case RunResumed():
            return {"status": "running"}
        case RunFinished():
            return {"status": "finished", "asking": (), "awaits_input": False}
        case RunFailed():
            return {"status": "failed", "asking": (), "awaits_input": False}
        case RunStopped():
            return {"status": "stopped", "asking": (), "awaits_input": False}
        case DefinitionChanged(definition=definition):
            return _pinned_to(definition)
        case RunStarted() as started:
            return _pinned_to(started.definition) | {
                "workspace": started.workspace,
                "started_at": envelope.at,
            }
        case _:
            return {}


def _pinned_to(definition: Definition) -> dict[str, object]:
    return {
        "workflow": definition.workflow.workflow_name,
        "found_as": definition.found_as,
        "kind": definition.kind,
    }
