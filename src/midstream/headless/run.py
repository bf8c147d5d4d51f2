"""A workflow or one chat turn without a person at the keyboard: output on stdout, an exit code.

Nobody is there to approve or to answer: tool calls that need approval are refused unless they were
allowed beforehand, and a question without an answer given beforehand parks the run. No answer is
ever invented.
"""

import json
from collections.abc import Callable, Sequence

from midstream.core.errors import UserMistake
from midstream.core.names import Json
from midstream.core.nearest import did_you_mean
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.core.spec import ToolSpec, chat_definition
from midstream.headless.codes import FAILED, FINISHED, PARKED
from midstream.ports import Engine, Library, Machine


async def play(
    engine: Engine,
    library: Library,
    name: str,
    *,
    input: Json,
    answers: Sequence[str],
    variables: dict[str, Json],
    allowed: Sequence[str],
    complain: Callable[[str], None],
) -> Run:
    """Return a workflow's run once it has ended, or waits for an answer that was not given.

    Args:
        engine: where the run lives.
        library: where the workflow is found.
        name: the workflow's name.
        input: what it is started with, None to leave it to the workflow's start condition.
        answers: answers to its questions, in the order they are asked.
        variables: values that override the workflow's `variables`.
        allowed: tools that need no approval.
        complain: hears what keeps the run from its end.

    Raises:
        UserMistake: there is no such workflow, or a variable it does not have.
        AuthorMistake: its files have problems.
    """
    definition, handlers = await library.load(name)
    _require_known(variables, definition.workflow.variables)
    machine = await engine.start(
        definition,
        handlers=handlers,
        input=input,
        variables=variables,
        allowed=allowed,
        approvals="deny",
    )
    return await _answered(machine, list(answers), complain)


async def chat_once(
    engine: Engine,
    library: Library,
    tools: dict[str, ToolSpec],
    prompt: str,
    *,
    role: str,
    answers: Sequence[str],
    allowed: Sequence[str],
    complain: Callable[[str], None],
) -> Run:
    """Return a chat's run once the role has replied to one prompt, or the turn has failed."""
    roles = library.roles()
    if role not in roles:
        raise UserMistake(f"There is no role {role!r}.", hint=did_you_mean(role, roles))
    definition = chat_definition(role, roles[role], tools)
    machine = await engine.start(definition, allowed=allowed, approvals="deny")
    await machine.settled()
    await machine.say(prompt)
    return await _answered(machine, list(answers), complain)


def result_of(run: Run) -> tuple[int, Json]:
    """Return the exit code of a run, and its output; a chat's output is its last reply."""
    if run.is_over:
        return (FINISHED, run.output) if run.status == "finished" else (FAILED, None)
    if run.phase != "waiting" or not run.state:
        return PARKED, None
    if run.error or run.last_response is None:
        return FAILED, None
    return FINISHED, run.last_response.text


async def _answered(machine: Machine, answers: list[str], complain: Callable[[str], None]) -> Run:
    """Return the run once it has ended, waits for the next chat line, or for an answer not given."""
    while True:
        run = await machine.settled()
        question = _wanted(run)
        if run.is_over or question is None:
            return run
        if not answers:
            complain(_parked(run, question))
            return run
        receipt = await machine.say(answers.pop(0), question=question.id, source="--answer")
        record = machine.run.inbox[receipt.input_id]
        if record.disposition == "rejected":
            complain(f"The answer {record.text!r} was refused: {record.reason}")


def _wanted(run: Run) -> Question | None:
    """Return the question that holds the run up; a chat that waits for its next line has none."""
    for question in run.open_questions:
        if question.kind == "question" or (question.kind == "input" and not run.state):
            return question
    return None


def _parked(run: Run, question: Question) -> str:
    choices = f" Choices: {', '.join(question.choices)}." if question.choices else ""
    return (
        f"Run {run.id} waits for an answer nobody gave: {question.text or 'its input'}{choices} "
        "Give it with --answer TEXT, once for each question."
    )


def _require_known(variables: dict[str, Json], known: dict[str, Json]) -> None:
    for name in variables:
        if name not in known:
            raise UserMistake(f"There is no variable {name!r}.", hint=did_you_mean(name, known))


def as_text(output: Json) -> str:
    """Return an output for stdout: text as it is, anything else as JSON."""
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    return json.dumps(output, indent=2, ensure_ascii=False)


def variable(text: str) -> tuple[str, Json]:
    """Return the name and value that `name=value` sets: a JSON value, else the text as it is.

    Raises:
        UserMistake: there is no `=`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserMistake(f"--set {text!r} sets nothing.", hint="Write --set name=value.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value
