"""All that became of a run as Markdown, for a person to keep or to pass on."""

from collections.abc import Iterable, Mapping

from midstream.core import events as e
from midstream.core.call_notes import without_change
from midstream.core.conversation import cut_words
from midstream.core.notices import Envelope
from midstream.core.run_data import as_text
from midstream.views.calls_in_words import beginning, call_words, fields_words, result_words


def markdown_of(facts: Iterable[Envelope], differences: Mapping[str, str]) -> str:
    """Return what became of a run as Markdown: who said what, a line for each call, what was cut.

    `differences` are what became of files, by their path and figures; they stand folded at the end.
    """
    calls: dict[str, e.ToolCalled] = {}
    asked: dict[str, e.QuestionAsked] = {}
    parts: list[str] = []
    for envelope in facts:
        event = envelope.event
        match event:
            case e.ToolCalled():
                calls[event.call_id] = event
            case e.QuestionAsked():
                asked[event.question_id] = event
            case e.Fact():
                # Calls and answers that follow each other are one list.
                told = _told(event, calls, asked)
                is_listed = told.startswith("- ") and bool(parts) and parts[-1].startswith("- ")
                if is_listed:
                    parts[-1] += f"\n{told}"
                elif told:
                    parts.append(told)
    folded = [
        f"<details><summary>{name}</summary>\n\n{fenced(diff, 'diff')}\n\n</details>"
        for name, diff in differences.items()
    ]
    return "\n\n".join([*parts, *(["## Files", *folded] if folded else [])]) + "\n"


def _told(
    event: e.Fact, calls: Mapping[str, e.ToolCalled], asked: Mapping[str, e.QuestionAsked]
) -> str:
    match event:
        case e.RunStarted():
            return f"# {event.workflow}"
        case e.InputReceived(handling="answer"):
            return ""
        case e.InputReceived():
            return f"## {'You' if event.source == 'user' else event.source}\n\n{event.text}"
        case e.AgentResponded():
            final = event.calls if event.is_final else ()
            texts = [event.text.strip(), *(fields_words(call.arguments) for call in final)]
            return _speech(event.agent, event.branch, "\n\n".join(filter(None, texts)))
        case e.Interrupted() | e.ReplyCut():
            mark = f"*[{cut_words(event.calling)}]*" if event.partial or event.calling else ""
            words = "\n\n".join(filter(None, (event.partial.rstrip(), mark)))
            return _speech(event.agent, event.branch, words)
        case e.AgentFailed():
            partial = f"{event.partial}\n\n" if event.partial else ""
            partial += f"*[{cut_words(event.calling)}]*\n\n" if event.calling else ""
            return _speech(event.agent, event.branch, f"{partial}*failed: {event.error}*")
        case e.ToolReturned():
            call = calls.get(event.call_id)
            what = event.name if call is None else call_words(call.name, call.arguments)
            mark = {"completed": "✓", "unknown": "?"}.get(event.outcome, "✗")
            result = result_words(event.name, event.outcome, without_change(event.result))
            return f"- {mark} `{what.replace('`', chr(39))}` · {result}"
        case e.QuestionAnswered():
            question = asked.get(event.question_id)
            words = as_text(event.answer)
            if question is None or question.kind == "input":
                return f"## You\n\n{words}"
            return (
                f"- {question.agent or 'The workflow'} asked: {beginning(question.text)} → {words}"
            )
        case e.WorkflowOutput():
            return event.text
        case e.RunFinished():
            return "*finished*"
        case e.RunFailed():
            return f"*failed: {event.error}*"
        case e.RunStopped():
            return f"*stopped: {event.reason}*"
        case _:
            return ""


def _speech(agent: str, branch: str, text: str) -> str:
    return f"## {f'{branch}: ' if branch else ''}{agent}\n\n{text}" if text else ""


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of code, within a fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
