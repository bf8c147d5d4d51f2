"""How a person in an editor is asked: approvals as requests for permission, questions as forms.

An approval shows exactly what is asked about, and only a choice in the editor decides on it: words never
do. What an editor cannot show stays open, and is answered in words, or in a console.
"""

from typing import Final, TypeAlias

from midstream.acp.updates import KINDS, block
from midstream.agents import acp_messages as m
from midstream.core.question import Question
from midstream.language.names import Json
from midstream.safety.capability import SHOWN
from midstream.safety.rules import in_words
from midstream.safety.sanitize import sanitized
from midstream.views import answer_forms
from midstream.views.calls_in_words import question_heading, question_summary

Choices: TypeAlias = dict[str, tuple[m.PermissionOption, dict[str, Json]]]
"""What a person may choose, by the option's id, and what `RunHandle.approve` is told of it."""

_NAMED: Final = 3


# --- approvals ----------------------------------------------------------------------------------


def permission_of(session: str, question: Question) -> tuple[m.RequestPermissionRequest, Choices]:
    """Return what an editor is asked for an approval, and what each choice decides."""
    choices = _plan_choices() if question.about == "plan" else _call_choices(question)
    shown = question.text if not question.why else f"{question.text}\n\n[{question.why}]"
    heading = question_heading(question)
    if question.about == "plan" or heading.endswith("wants to run"):
        heading += f": {question_summary(question)}"
    call = m.ToolCallUpdate(
        tool_call_id=question.call_id or question.id,
        title=sanitized(heading),
        status="pending",
        kind=_kind(question),
        content=(block(shown),),
    )
    options = tuple(option for option, _ in choices.values())
    return m.RequestPermissionRequest(session_id=session, tool_call=call, options=options), choices


def _kind(question: Question) -> m.ToolKind:
    if question.about == "plan":
        return "switch_mode"
    return KINDS.get(question.text.partition("\n")[0], "other")


def _call_choices(question: Question) -> Choices:
    granted = sorted((ask for ask in question.asks if not ask.startswith(SHOWN)), key=len)
    named = [sanitized(in_words(ask)) for ask in granted[:_NAMED]]
    named += [f"{len(granted) - _NAMED} more"] if len(granted) > _NAMED else []
    what = f": {'; '.join(named)}" if named else ""
    return _by_id(
        (_option("once", "Allow once", "allow_once"), {"granted": True}),
        (
            _option("run", f"Allow for this run{what}", "allow_always"),
            {"granted": True, "for_run": True},
        ),
        (_option("no", "Reject", "reject_once"), {"granted": False}),
    )


def _plan_choices() -> Choices:
    return _by_id(
        (
            _option("ask", "Carry it out, asking before changes", "allow_once"),
            {"granted": True, "mode": "ask"},
        ),
        (
            _option("auto", "Carry it out without asking for changes here", "allow_once"),
            {"granted": True, "mode": "auto"},
        ),
        (_option("no", "Reject it", "reject_once"), {"granted": False}),
    )


def _option(id: str, name: str, kind: str) -> m.PermissionOption:
    return m.PermissionOption(option_id=id, name=name, kind=kind)  # type: ignore[arg-type]


def _by_id(*rows: tuple[m.PermissionOption, dict[str, Json]]) -> Choices:
    return {option.option_id: (option, decided) for option, decided in rows}


# --- questions ----------------------------------------------------------------------------------


def form_of(session: str, question: Question) -> m.CreateElicitationRequest | None:
    """Return the form of a question, None where no form an editor knows can hold its answer."""
    schema = answer_forms.form_of(question, is_wide=True)
    if schema is None:
        return None
    return m.CreateElicitationRequest(
        mode="form",
        session_id=session,
        tool_call_id=question.call_id or None,
        message=sanitized(f"{question_heading(question)}: {question.text}"),
        requested_schema=schema,
    )
