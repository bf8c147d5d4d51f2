"""Tasks handed on: a call of `delegate`, or of `run_workflow`, is a branch of the run until it ends.

The call is told as every call is, and with it, in one decision, that its branch begins; the branch's end
and the call's are one decision, too. So there is no moment at which one of them is without the other. A
halt of the turn stops its tasks, since it closes the turn's calls: the call waits, as one that is being
stopped softly, until nothing in its branch is, and then says what the task had come to.

A role stands in the definition. A workflow has to be found first: its call runs as any other until it is.
"""

import re
from typing import Final

from midstream.core.conversation import ToolCall
from midstream.core.decide.transaction import Story
from midstream.core.events import BranchStarted, ToolCalled
from midstream.core.routing import living
from midstream.core.run import OpenCall, Run, branch_for, definition_of, kept_words
from midstream.core.run_data import as_text
from midstream.language.errors import did_you_mean
from midstream.language.names import Outcome
from midstream.language.plan import without_tools
from midstream.language.spec import Definition

MAX_TASK_DEPTH: Final = 2
"""How deep tasks may be handed on: one that was handed on may hand on, and what that does may not."""

MAX_TASKS: Final = 8
"""Tasks of a run that are at work at once."""


def delegate(story: Story, agent: str, call: ToolCall) -> None:
    """Begin a task in another role, or say why it cannot be begun."""
    role, task = str(call.arguments.get("role", "")), str(call.arguments.get("task", ""))
    if problem := _problem(story, agent, role, task):
        story.close_call(call.id, "failed", problem)
        return
    files = call.arguments.get("files")
    named = [f"@{file}" for file in files] if isinstance(files, list) else []
    story.tell(ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent))
    name = _free_name(story.run, role)
    is_apart = call.arguments.get("worktree") is True
    story.tell(
        BranchStarted(
            name=name,
            input="\n\n".join(filter(None, (task, " ".join(named)))),
            call_id=call.id,
            role=role,
            agent=agent,
            worktree=worktree_name(story, name) if is_apart else "",
        )
    )


def worktree_name(story: Story, branch: str) -> str:
    """Return a name for a worktree that no other of the run has: git and a folder take it as it is."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", branch)[:40].strip("-") or "branch"
    return f"{plain}-{story.whole.run.seq + 1}"


def run_workflow(story: Story, agent: str, call: OpenCall, definition: Definition) -> None:
    """Begin the workflow that a running call names, or say why it cannot be begun."""
    id = call.call.id
    if problem := "Only an agent can run one." if not agent else _too_many(story):
        story.close_call(id, "failed", problem)
        return
    story.tell(
        BranchStarted(
            name=_free_name(story.run, definition.found_as or definition.workflow.workflow_name),
            input=call.arguments.get("input"),
            call_id=id,
            agent=agent,
            definition=without_tools(definition),
        )
    )


def _problem(story: Story, agent: str, role: str, task: str) -> str:
    roles = definition_of(story.run).delegates
    if not agent:
        return "Only an agent can hand a task on."
    if not task.strip():
        return "The task is empty: say what is to be done."
    if role not in roles:
        return f"There is no role {role!r}. {did_you_mean(role, roles)}"
    return _too_many(story)


def _too_many(story: Story) -> str:
    around = (story, *story.around_it())
    if sum(bool(each.run.branch.call_id) for each in around) >= MAX_TASK_DEPTH:
        return f"Tasks are handed on at most {MAX_TASK_DEPTH} times: do it yourself, or say what is left."
    if sum(bool(each.branch.call_id) for each in living(story.whole.run)) >= MAX_TASKS:
        return f"{MAX_TASKS} tasks are at work already: hand this one on when one of them is done."
    return ""


def _free_name(run: Run, role: str) -> str:
    """Return a name no branch of the visit has, which a person can type after an @."""
    name, number = re.sub(r"[\s/\\@]+", "-", role), 1
    found = name
    while found in run.visit.branches:
        number += 1
        found = f"{name}-{number}"
    return found


def hand_in(story: Story, stopped: str = "Stopped.") -> bool:
    """Close the calls whose tasks have ended, with what they came to; False: there are none.

    `stopped` is said of those that were stopped.
    """
    turn, has_told = story.run.visit.turn, False
    for open_call in () if turn is None or not story.run.visit.branches else turn.calls:
        branch = branch_for(story.run, open_call)
        if branch is None or open_call.status == "done" or not branch.is_over:
            continue
        story.close_call(open_call.call.id, *_came_to(branch, stopped))
        has_told = True
    return has_told


def _came_to(branch: Run, stopped: str) -> tuple[Outcome, str]:
    if branch.status == "finished":
        return "completed", "" if branch.output is None else as_text(branch.output)
    said = branch.error if branch.status == "failed" else stopped
    outcome: Outcome = "failed" if branch.status == "failed" else "stopped"
    parts = (said, as_text(branch.output or ""), kept_words(branch))
    return outcome, " ".join(filter(None, parts))
