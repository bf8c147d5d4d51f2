"""Steps, and how a run stands, in words for a person."""

from collections.abc import Sequence

import msgspec

from midstream.core.run import Run
from midstream.language.names import Json
from midstream.rehearsal import format as form
from midstream.rehearsal.fake_world import Standing

MAX_SHOWN = 160


def clipped(text: str) -> str:
    """Return a text in one line, its end named instead of shown where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}... (+{len(line) - MAX_SHOWN})"


def step_in_words(step: form.AnyStep) -> str:
    """Return what a step is, in a line."""
    words = _in_words(step)
    return f"in the branch {step.branch}, {words}" if step.branch else words


def _in_words(step: form.AnyStep) -> str:
    match step:
        case form.ModelReplied():
            calls = "".join(f" [{call.name}]" for call in step.calls)
            return clipped(f"{step.agent} is asked in {step.state} and says: {step.text}{calls}")
        case form.ModelFailed():
            return clipped(f"{step.agent} is asked in {step.state} and fails: {step.error}")
        case form.ToolReturned():
            return clipped(f"{step.tool}({as_json(step.arguments)}) returns: {step.result}")
        case form.ToolEnded():
            return clipped(f"{step.tool}({as_json(step.arguments)}) has changed: {step.result}")
        case form.UserSaid():
            return clipped(f"the user says: {step.text}")
        case form.UserAnswered():
            return clipped(f"{step.question!r} is asked, and the user answers: {step.text}")
        case form.UserDecided():
            said = "yes" if step.granted else "no"
            return clipped(f"{step.tool}({as_json(step.arguments)}) needs a yes, and gets a {said}")
        case form.UserRevoked():
            return clipped(f"the user takes back what they had granted: {step.permission}")
        case form.UserHalted():
            return "the user presses Esc"
        case form.UserStopped():
            return "the user stops the run"
        case form.UserWithdrew():
            return clipped(f"the user takes back: {step.text}")
        case form.UserResumed():
            return "the run is suspended, and the user resumes it"
        case form.UserCompacted():
            return clipped(f"the user has the older turns summarised {step.note}".rstrip())
        case form.UserRenamed():
            return clipped(f"the user calls the run {step.name!r}")
        case form.UserEditedTodo():
            return clipped(f"the user changes the todo list: {step.edit}")
        case form.TimeCame():
            return f"the time has come ({step.timer} of {step.state})"
        case form.ProcessChanged():
            return "another process goes on with the run"


def standing_in_words(run: Run, standing: Sequence[Standing]) -> str:
    """Return how a run stands that is quiet, in a line."""
    if run.is_over:
        why = f" ({run.error})" if run.error else ""
        return clipped(f"the run has {run.status}{why}")
    parts = [_stands(each) + (f" in {each.branch}" if each.branch else "") for each in standing]
    parts += [
        f"{question.text or 'words'!r} is waited for" for question in run.inbox.open_questions
    ]
    return clipped(f"in {run.visit.state or 'the beginning'}: {'; '.join(parts) or 'nothing runs'}")


def _stands(standing: Standing) -> str:
    match standing.kind:
        case "model":
            return f"{standing.name} is asked"
        case "handler":
            return f"the handler {standing.name} is called"
        case "timer":
            return f"the {standing.name} of {standing.state} runs"
        case _:
            return f"{standing.name}({as_json(standing.arguments)}) runs"


def as_json(value: Json) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()
