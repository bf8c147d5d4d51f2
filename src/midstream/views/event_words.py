"""A fact of a run in plain words, by itself: for who hears of a run elsewhere than in a console.

A console knows what was before and tells a call with its result, a halt with what it stopped. Here each
fact stands alone, so that any page of them can be told without the pages before.
"""

from midstream.core import events as e
from midstream.core.call_notes import without_change
from midstream.core.conversation import cut_words
from midstream.core.notices import Envelope
from midstream.core.run_data import as_text
from midstream.language.errors import with_hint
from midstream.views.calls_in_words import call_words, fields_words, question_heading, result_words
from midstream.views.side_effects import TREE


def event_words(envelope: Envelope) -> str:
    """Return what a fact says, "" for one that says nothing to a person.

    What agents and people said stands there whole, with its line breaks.
    """
    words, branch = _words(envelope.event), envelope.event.branch
    names_it = isinstance(envelope.event, e.QuestionAsked)  # whoever asks is named with it
    return words if names_it or not (words and branch) else f"{branch} ▌ {words}"


def _words(event: object) -> str:
    match event:
        case e.RunStarted():
            return f"{event.workflow} begins{f', started by {event.source}' * bool(event.source)}"
        case e.RunRecovered(was_cut=was_cut):
            return "it goes on after it was cut off" if was_cut else "it goes on"
        case e.RunSuspended(reason=reason):
            return f"suspended: {reason}"
        case e.StateTransition():
            return f"→ {event.target}{f'  ({event.reason})' if event.reason else ''}"
        case e.StateFailed():
            then = f"tried again in {event.wait_s:g} s" if event.then == "retry" else "caught"
            return f"{event.state} failed, {then}: {event.error}"
        case e.BranchStarted():
            return f"{event.name} begins"
        case e.BranchFinished():
            return "finished"
        case e.BranchFailed() | e.RunFailed():
            return with_hint(f"failed: {event.error}", event.hint)
        case e.BranchStopped(reason=reason) | e.RunStopped(reason=reason):
            return f"stopped: {reason}"
        case e.AgentResponded():
            parts = [event.text.strip()]
            parts += [fields_words(call.arguments) for call in event.calls if event.is_final]
            return _said(event.agent, "\n".join(filter(None, parts)))
        case e.AgentFailed():
            return with_hint(f"{event.agent} failed: {event.error}", event.hint)
        case e.ToolCalled():
            return (
                f"{event.agent or 'the workflow'} calls {call_words(event.name, event.arguments)}"
            )
        case e.ToolReturned():
            result = result_words(event.name, event.outcome, without_change(event.result))
            return f"{event.name}: {result}"
        case e.FileWritten(call_id=call_id) if call_id == TREE:
            return "the files are kept as they are now"
        case e.FileWritten():
            return f"writes {event.path}"
        case e.QuestionAsked(kind="input"):
            return f"waits for words{f': {event.text}' if event.text else ''}"
        case e.QuestionAsked():
            choices = f" ({' | '.join(event.choices)})" if event.choices else ""
            return f"{question_heading(event)}: {event.text}{choices}"
        case e.QuestionAnswered():
            return f"{event.question_id} is answered: {as_text(event.answer)}"
        case e.QuestionSuperseded():
            return f"{event.question_id} is closed unanswered: {event.reason}"
        case e.QuestionExpired():
            return f"nobody answered {event.question_id} in time"
        case e.InputReceived():
            to = f" to {event.to}" if event.to else ""
            return f"{event.source} says{to}: {event.text}"
        case e.InputDisposed(disposition="rejected"):
            return f"words were not delivered: {event.reason}"
        case e.Interrupted():
            said = _said(event.agent, event.partial.rstrip())
            how = cut_words(event.calling)
            return f"{said} [{how}]" if said else how
        case e.ReplyCut():
            said = _said(event.agent, event.partial.rstrip())
            if event.calling:
                return f"{said} [{cut_words(event.calling)}]".lstrip()
            return f"{said} [cut]" if said else ""
        case e.BudgetReached():
            return event.what
        case e.WorkflowOutput(kind="log", text=text):
            return text
        case e.RunFinished():
            return f"finished: {as_text(event.output)}" if event.output is not None else "finished"
        case _:
            return ""


def _said(agent: str, text: str) -> str:
    return f"{agent}: {text}" if text else ""
