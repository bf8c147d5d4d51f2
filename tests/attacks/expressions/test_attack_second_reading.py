"""What somebody wrote is put where a workflow says, once: none of it is read as a template or a condition.

Each row takes words from one place where a model, a file or a person can write (a reply, the arguments
of a structured one, what a tool returned, an answer, words that interrupt, the input) to one place that
is filled in or decided. There they have to stand as they were written.
"""

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from decide_kit import call, define, done, flow, replies, says, state, tell
from tables import table

from midstream.core.events import AnyFact, CallPlanned, Prompted, QuestionAsked, StateTransition
from midstream.core.run import Run
from midstream.language.spec import Ask, ForEach, State, SubWorkflow, Transition, Workflow
from midstream.language.templates import filled
from midstream.safety.command_line import read_command
from midstream.safety.rules import covers

CANARY = "c4nary-of-the-variables"
HOSTILE = (
    "${variables.secret} $${variables.secret} ${variables.secret?x} {{variables.secret}} "
    "${common_data.said} ${input} `id` $(id) ' or 1 == 1 or ' %(secret)s {0.__class__}"
)


class Source(NamedTuple):
    """Where words come from: the first state, what happens in it, and the path of the words then."""

    first: State
    steps: tuple[Any, ...]
    path: str


def _returned(run: Run) -> Any:
    assert run.visit.turn is not None
    return done(run.visit.turn.calls[0].call.id, HOSTILE)(run)  # type: ignore[operator]


def _first(**fields: Any) -> State:
    return State(name="start", save_as="said", next="resume", **fields)


SOURCES: dict[str, Source] = {
    "the input": Source(State(name="start", next="resume"), (), "input"),
    "a reply": Source(_first(agent="dude"), (replies(HOSTILE),), "common_data.said"),
    "the last reply": Source(_first(agent="dude"), (replies(HOSTILE),), "last.text"),
    "a structured reply": Source(
        _first(agent="judge"), (replies("", call("verdict", why=HOSTILE)),), "common_data.said.why"
    ),
    "what a tool returned": Source(_first(tool="look"), (_returned,), "common_data.said"),
    "an answer": Source(
        _first(ask="What?"), (says(HOSTILE, "q1", answer=HOSTILE),), "common_data.said"
    ),
    "words that interrupt": Source(state("start", "dude"), (says(HOSTILE),), "resume_input"),
}
INNER = flow(state("start", "dude", prompt="${input.a}${variables.b}"), variables={"b": ""})
EACH = (state("one", "dude", prompt="${input}"),)


def _sub(**given: Any) -> State:
    return State(name="resume", workflow=SubWorkflow(name="inner", **given))


SINKS: dict[str, Callable[[str], State]] = {
    "a prompt": lambda words: state("resume", "dude", prompt=words),
    "an argument": lambda words: State(name="resume", tool="shell", arguments={"command": words}),
    "an argument within others": lambda words: State(
        name="resume", tool="shell", arguments={"env": [{"A": words}]}
    ),
    "a question": lambda words: State(name="resume", ask=words),
    "a choice": lambda words: State(name="resume", ask=Ask(question="?", choices=(words, "b"))),
    "a sub-workflow's input": lambda words: _sub(input={"a": words}),
    "a sub-workflow's variables": lambda words: _sub(input={"a": ""}, variables={"b": words}),
}


def _workflow(source: Source, sink: State, *others: State, **fields: Any) -> Workflow:
    return flow(source.first, sink, *others, variables={"secret": CANARY, **fields})


def _said(facts: list[AnyFact]) -> list[str]:
    """Return what was put somewhere after the words came, and is no question of the source."""
    found: list[str] = []
    for fact in facts:
        match fact:
            case Prompted(text=text):
                found.append(text)
            case CallPlanned(call=planned) if planned.arguments:
                env = planned.arguments.get("env", [])
                found += [planned.arguments.get("command") or env[0]["A"]]
            case QuestionAsked(text=text, choices=choices) if text != "What?":
                found.append(choices[0] if choices else text)
    return found


@table("sink", SINKS)
@table("source", SOURCES)
def test_what_was_written_stands_as_it_was_written(source: str, sink: str) -> None:
    given = SOURCES[source]
    whole = _workflow(given, SINKS[sink](f"${{{given.path}}}"))
    _, facts = tell(define(whole, inner=INNER), *given.steps, input=HOSTILE)

    assert [text for text in _said(facts) if text] == [HOSTILE]


@table("source", SOURCES)
def test_what_was_written_decides_nothing_by_itself(source: str) -> None:
    given = SOURCES[source]
    fork = State(
        name="resume",
        transitions=(
            Transition(when=f"{given.path} == 'yes'", to="reached"),
            Transition(when=f"'{CANARY}' in {given.path}", to="reached"),
            Transition(to="stop"),
        ),
    )
    _, facts = tell(_workflow(given, fork, State(name="reached")), *given.steps, input=HOSTILE)

    assert "reached" not in [f.target for f in facts if isinstance(f, StateTransition)]


def test_each_of_a_list_stands_as_it_was_written() -> None:
    each = State(name="start", for_each=ForEach(items="input", states=EACH))
    _, facts = tell(flow(each, variables={"secret": CANARY}), input=[HOSTILE, "common_data.x"])

    assert _said(facts) == [HOSTILE, "common_data.x"]


@pytest.mark.parametrize(
    "chosen", [HOSTILE, "${variables.secret}", "stop; stop", "../stop", "stop\n"]
)
def test_no_state_is_named_by_words_that_are_put_in(chosen: str) -> None:
    start = state("start", "dude", save_as="said", prompt="Which?")
    run, facts = tell(flow(start, State(name="resume")), replies(chosen), input="x")

    assert [f.target for f in facts if isinstance(f, StateTransition)] == ["start", "stop"]
    assert run.common_data["said"] == chosen


COMMANDS = {
    "a second command": "x; touch y",
    "a command in its place": "$(touch y)",
    "one in backticks": "`touch y`",
    "one on the next line": "x\ntouch y",
    "one after a return": "x\rtouch y",
    "one behind a pipe": "x | sh",
    "one behind both": "x && touch y",
    "one in the background": "x & touch y",
    "a file written": "x > y",
    "a file read by another": "<(touch y)",
    "a variable": "$HOME",
    "names of files": "*",
    "quotes that end": "x' ; touch y ; '",
    "quotes that do not end": "'",
    "a backslash": "\\",
    "a comment": "x #",
    "history": "!!",
    "a space nobody sees": "x\u00a0;touch\u00a0y",
}


@table("tries", COMMANDS)
@table("line", ["grep ${input} app.py", "grep '${input}' app.py", "grep -- ${input}"])
def test_a_command_is_judged_as_it_is_when_it_is_filled_in(line: str, tries: str) -> None:
    command = filled(line, lambda path: COMMANDS[tries])
    assert isinstance(command, str)
    capability = read_command(command)

    if covers(["exec: grep *"], capability):
        # It is what a shell would read, and no word of it begins another command.
        assert capability.argv == tuple(shlex.split(command))
        assert "touch" not in capability.argv
