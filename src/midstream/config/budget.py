"""The `budget` of an application.json: what each run may use at most."""

from typing import Final

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.problem import Report
from midstream.language.shape import fit, shown

BUDGET: Final = "budget"
BUDGET_PARTS: Final = {
    "usd": "usd",
    "tokens": "tokens",
    "toolCalls": "tool_calls",
    "transitions": "transitions",
    "minutes": "minutes",
}
"""The parts as the settings name them, and as `language.spec.Budget` does."""

FRACTIONAL: Final = ("usd", "minutes")
"""The parts that need not be whole numbers."""


def read_budget(node: Node, report: Report) -> dict[str, str]:
    """Return the limits by keys such as `budget.usd`; what is no number above 0 is left out."""
    if node.kind != "object":
        report.error(node, 'expected an object such as {"usd": 2, "toolCalls": 200}.')
    found: dict[str, str] = {}
    for part, member in node.members.items():
        kind = float if part in FRACTIONAL else int
        if part not in BUDGET_PARTS:
            hint = report.near(part, tuple(BUDGET_PARTS))
            report.error(member, f'there is no "{clip(part)}" here; ignored.', hint)
        elif fit(member.node, kind, report):
            if member.node.value > 0:
                found[f"{BUDGET}.{part}"] = str(member.node.value)
            else:
                words = f"expected a number above 0, found {shown(member.node)}."
                report.error(member.node, words)
    return found
