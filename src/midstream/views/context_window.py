"""What fills a model's window: the request an agent would make now, by kind. Tokens are estimates."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

import msgspec

from midstream.core.conversation import (
    NOTE,
    SUMMARY,
    USER,
    Message,
    ToolResult,
    seen_by,
    tokens_in,
)
from midstream.core.costs import costs, counted
from midstream.core.guidance import AGENTS_FILE, environment_in, system_message
from midstream.core.run import Run, definition_of
from midstream.language.plan import tools_for
from midstream.views.amounts import in_short, token_words
from midstream.views.cells import clipped, padded


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of what is sent: how many `things` of it, and how many tokens they may be."""

    name: str
    tokens: int
    things: str = ""


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's next request holds. `counted` are the tokens its last one had by its
    provider's own count, 0 where none was told.
    """

    agent: str
    level: str
    context: str
    branch: str
    parts: tuple[Part, ...]
    counted: int = 0

    @property
    def tokens(self) -> int:
        """Return the estimate for all of it."""
        return sum(part.tokens for part in self.parts)


def agents_of(run: Run) -> tuple[str, ...]:
    """Return the run's agents: the one at work or asked next first, then those that were asked last."""
    agents = list(run.plan.agents)
    state = run.plan.states.get(run.visit.state)
    wanted = [] if run.visit.turn is None else [run.visit.turn.agent]
    wanted += [state.agent] if state is not None and state.agent else []
    asked = {agent for agent, _ in costs(run.usage.requests).rows}
    for agent, _ in reversed(run.usage.requests):
        if not asked:
            break
        wanted += [agent] if agent in asked else []
        asked.discard(agent)
    return tuple(name for name in dict.fromkeys([*wanted, *agents]) if name in agents)


def filling_of(run: Run, agent: str) -> Filling:
    """Return what fills the window of an agent of the run, or of a branch, as it stands."""
    definition, plan = definition_of(run), run.plan
    spec = plan.agents[agent]
    role = definition.roles[spec.agent_role]
    tools = tools_for(definition, spec, plan.states.get(run.visit.state))
    messages = seen_by(run.contexts.get(spec.context, ()), agent=agent, side=spec.role)
    described = sum(
        len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.parameters))
        for tool in tools
    )
    guidance = len(system_message(definition, role)) - len(role.systemMessage)
    environment = len(environment_in(definition)) if role.agentsFile else 0
    system = [message.text for message in messages if message.role == "system"]
    below = run.below.get(spec.context, {})
    parts = [
        Part(name="system message", tokens=tokens_in(len(role.systemMessage))),
        Part(name="environment", tokens=tokens_in(environment)),
        Part(name=f"{AGENTS_FILE}, memory, skills", tokens=tokens_in(guidance - environment)),
        Part(name="tools", tokens=tokens_in(described), things=counted(len(tools), "definition")),
        _words("other system messages", system),
        *_spoken(messages, agent, told=sum(below.values())),
        Part(
            name=f"{AGENTS_FILE} of folders",
            tokens=tokens_in(sum(below.values())),
            things=", ".join(path for path, size in below.items() if size),
        ),
        Part(name="reminder", tokens=tokens_in(len(role.reminder))),
    ]
    last = next(
        (
            usage.input_tokens
            for name, usage in reversed(run.usage.requests)
            if name == agent and not usage.is_estimate
        ),
        0,
    )
    return Filling(
        agent=agent,
        level=role.level,
        context=spec.context,
        branch=run.branch.path,
        parts=tuple(part for part in parts if part.tokens),
        counted=last,
    )


def _spoken(messages: Iterable[Message], agent: str, *, told: int) -> list[Part]:
    said = [message for message in messages if message.role != "system"]
    calls = [call for message in said for call in message.calls]
    results = [result for message in said for result in message.results]
    others = [m.text for m in said if m.author not in (USER, SUMMARY, NOTE, agent) and m.text]
    arguments = sum(len(c.name) + len(msgspec.json.encode(c.arguments)) for c in calls)
    return [
        _words("summary of older turns", [m.text for m in said if m.author == SUMMARY]),
        _words("your words", [m.text for m in said if m.author in (USER, NOTE) and m.text]),
        _words(f"{agent}'s words", [m.text for m in said if m.author == agent and m.text]),
        _words("others' words", others),
        Part(name="tool calls", tokens=tokens_in(arguments), things=counted(len(calls), "call")),
        Part(
            name="tool results",
            tokens=tokens_in(max(0, sum(len(result.text) for result in results) - told)),
            things=counted(len(results), "result") + _trimmed(results),
        ),
    ]


def _trimmed(results: Sequence[ToolResult]) -> str:
    """Return how many results stand there as marks, and about how much of them is no longer sent."""
    taken = [result.trimmed for result in results if result.trimmed]
    return f", {len(taken)} trimmed by {in_short(tokens_in(sum(taken)))}" if taken else ""


def _words(name: str, texts: list[str]) -> Part:
    size = sum(map(len, texts))
    return Part(name=name, tokens=tokens_in(size), things=counted(len(texts), "message"))


_BAR = 20


def filling_lines(filling: Filling, *, model: str, window: int | None, width: int) -> list[str]:
    """Return a filling as lines of so many cells. `window` is what the model takes, None: unknown."""
    whole = window or max(1, filling.tokens)
    label = max((len(part.name) for part in filling.parts), default=0)
    place = f"{filling.branch} ▌ {filling.agent}" if filling.branch else filling.agent
    found = [f"{place} in {filling.context}, with {model}"]
    bar = _BAR if width >= label + _BAR + 40 else 0
    for part in sorted(filling.parts, key=lambda part: -part.tokens):
        share = part.tokens / whole
        cells = [padded(part.name, label), f"{in_short(part.tokens):>6}", f"{share:>4.0%}"]
        if bar:
            cells.append(padded("█" * max(1, min(bar, round(share * bar))), bar))
        cells.append(part.things)
        found.append("  " + "  ".join(cells).rstrip())
    told = [f"about {token_words(filling.tokens)}{_of(filling.tokens, window)}"]
    if filling.counted:
        told.append(f"its last request: {token_words(filling.counted)} by the provider's count")
    told.append("Estimated at 4 characters a token.")
    room = max(8, width)
    whole_lines = [row for line in told for row in wrap(line, room, subsequent_indent="  ")]
    return [*(clipped(line, room) for line in found), *whole_lines]


def _of(tokens: int, window: int | None) -> str:
    if window is None:
        return "; the model's context limit is not known"
    return f" of {in_short(window)}: {tokens / window:.0%} full, {in_short(max(0, window - tokens))} left"
