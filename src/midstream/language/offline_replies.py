"""The file `offline.json` of a workflow: what its agents say and call where no model is configured.

See `docs/offline.md`. It is read once more each time the offline model is asked, and checked by
`midstream validate`.
"""

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from midstream.language.errors import clip
from midstream.language.json_text import Member, Node
from midstream.language.lint_scopes import branches_of
from midstream.language.names import Json
from midstream.language.problem import Problem, Report
from midstream.language.shape import fit, read_file

DEFAULT = "default"
"""Stands for every agent, or every state, that is not named."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call to make. Texts in `arguments` are templates."""

    name: str
    arguments: dict[str, Json] = {}


class Scene(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to say and call. `visit` and `request` count from 1; None fits every one."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    visit: int | None = None
    request: int | None = None


Book: TypeAlias = dict[str, dict[str, tuple[Scene, ...]]]
"""Scenes by agent and state."""


def lint_offline_part(text: str, *, file: str, workflow: Node | None) -> tuple[Problem, ...]:
    """Return everything that is wrong with an offline part; `workflow` is the one it is played in.

    None: there is none that can be read, and names of agents and states go unchecked.
    """
    root, report = read_file(text, file)
    if root is None:
        return report.problems
    fit(root, Book, report)
    if workflow is not None:
        agents, states = _agents_of(workflow), _states_of(workflow)
        for agent in root.members.values():
            _check_named(agent, "agent", agents, report)
            for state in agent.node.members.values():
                _check_named(state, "state", states, report)
    return report.problems


def _check_named(member: Member, what: str, known: Collection[str], report: Report) -> None:
    if member.key != DEFAULT and member.key not in known:
        message = f'the workflow has no {what} "{clip(member.key)}": this is never played.'
        report.warning(member, message, report.near(member.key, known))


def _agents_of(workflow: Node) -> set[str]:
    """Return what the agents of a workflow are called."""
    return {
        name.value
        for agent in workflow.objects("agents")
        if (name := agent.text("name") or agent.text("agent_role")) is not None
    }


def _states_of(holder: Node) -> set[str]:
    """Return the names of the states of a workflow or branch, those inside its branches included."""
    found = set()
    for state in holder.objects("states"):
        name = state.text("name")
        found |= set() if name is None else {str(name.value)}
        for branch in branches_of(state):
            found |= _states_of(branch)
    return found
