"""Where nobody has trusted the workspace, and in the mode `plan`, tools only look, whoever wrote them."""

from pathlib import Path

import msgspec
from tables import table
from toolbench import Bench, a_tool

from midstream.language.names import Effect, Json
from midstream.runtime.ports import ToolContext
from midstream.safety.capability import SHOWN
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager

POLICIES = {
    "an untrusted workspace": Policy(is_untrusted=True),
    "an untrusted workspace and the mode auto": Policy(is_untrusted=True, mode="auto"),
    "an untrusted workspace and the mode full": Policy(is_untrusted=True, mode="full"),
    "an untrusted workspace and rules that allow": Policy(
        is_untrusted=True, sandbox="full", allow=("tool: thing", "write: **", "shell: *")
    ),
    "the mode plan": Policy(mode="plan"),
    "the mode plan and rules that allow": Policy(mode="plan", allow=("tool: thing", "write: **")),
    "a rule that denies it": Policy(mode="full", deny=("tool: thing",)),
}


@table("where", POLICIES)
@table("effect", ["once", "idempotent"])
async def test_a_tool_of_the_persons_own_that_does_something_is_refused(
    tmp_path: Path, where: str, effect: Effect
) -> None:
    def do(_arguments: dict[str, Json], _context: ToolContext) -> str:
        (tmp_path / "done").touch()
        return "Done."

    manager = ToolManager([a_tool(do, effect=effect)], policy=lambda: POLICIES[where])

    refused = await Bench(tmp_path, manager).failure("thing")

    assert refused.startswith("Refused: ")
    assert not (tmp_path / "done").exists()


async def test_one_that_only_reads_is_not(tmp_path: Path) -> None:
    def look(_arguments: dict[str, Json], _context: ToolContext) -> str:
        return "I saw."

    for where in ("an untrusted workspace", "the mode plan"):
        manager = ToolManager([a_tool(look)], policy=lambda where=where: POLICIES[where])  # type: ignore[misc]

        assert await Bench(tmp_path, manager).text("thing") == "I saw."


@table("where", POLICIES)
@table("effect", ["once", "idempotent"])
async def test_it_is_refused_before_anybody_is_asked(
    tmp_path: Path, where: str, effect: Effect
) -> None:
    manager = ToolManager(
        [a_tool(_noted, effect=effect, needs_approval=True)], policy=lambda: POLICIES[where]
    )

    review = await manager.review("thing", {}, Bench(tmp_path, manager).context)

    assert manager.specs()["thing"].reviewed
    assert (review.kind, review.asks) == ("deny", ())
    assert review.hint


def _noted(_arguments: dict[str, Json], _context: ToolContext) -> str:
    return "Done."


ASKS = ("ask", ("tool: thing",))
ALLOWS = ("allow", ())
DENIES = ("deny", ())

NAMED: dict[str, tuple[Policy, Effect, bool, tuple[str, tuple[str, ...]]]] = {
    # what is set: the policy, the tool's effect, whether it needs approval, and what comes of a call
    "nothing": (Policy(), "once", True, ASKS),
    "the mode auto": (Policy(mode="auto", sandbox="full"), "once", True, ASKS),
    "the mode full": (Policy(mode="full"), "once", True, ALLOWS),
    "a rule that allows it": (Policy(allow=("tool: thing",)), "once", True, ALLOWS),
    "its author's word that it need not ask": (Policy(), "once", False, ALLOWS),
    "that word, and a rule that asks": (Policy(ask=("tool: thing",)), "once", False, ASKS),
    "that word, and a rule that denies": (Policy(deny=("tool: t*",)), "once", False, DENIES),
    "that word, and the mode plan": (Policy(mode="plan"), "once", False, ALLOWS),
    "a reader in the mode plan": (Policy(mode="plan"), "read", False, ALLOWS),
    "a reader that asks, in the mode plan": (Policy(mode="plan"), "read", True, ASKS),
    "a reader, and a rule that denies": (Policy(deny=("tool: thing",)), "read", False, DENIES),
    "a reader, and a rule that asks": (Policy(ask=("tool: thing",)), "read", False, ASKS),
}


@table("case", NAMED)
async def test_a_tool_that_says_no_more_is_judged_by_its_name(tmp_path: Path, case: str) -> None:
    policy, effect, needs_approval, wanted = NAMED[case]
    manager = ToolManager(
        [a_tool(_noted, effect=effect, needs_approval=needs_approval)], policy=lambda: policy
    )

    review = await manager.review("thing", {}, Bench(tmp_path, manager).context)

    assert (review.kind, tuple(ask for ask in review.asks if not ask.startswith(SHOWN))) == wanted


@table("name", ["execute_terminal", "read_files", "get_time"])
async def test_a_rule_on_a_built_in_tool_s_name_counts(tmp_path: Path, name: str) -> None:
    arguments: dict[str, dict[str, Json]] = {
        "execute_terminal": {"command": "ls"},
        "read_files": {"paths": ["a.txt"]},
        "get_time": {},
    }
    (tmp_path / "a.txt").write_text("a\n")
    rule = (f"tool: {name}",)
    refusing = Bench(tmp_path, ToolManager(policy=lambda: Policy(mode="full", deny=rule)))
    asking = Bench(tmp_path, ToolManager(policy=lambda: Policy(mode="full", ask=rule)))

    assert f'The deny rule "tool: {name}"' in await refusing.failure(name, **arguments[name])
    assert asking.manager.specs()[name].reviewed
    review = await asking.manager.review(name, arguments[name], asking.context)
    assert (review.kind, f"tool: {name}" in review.asks) == ("ask", True)
    given = msgspec.structs.replace(asking.context, granted=review.asks)
    assert (await asking.manager.call(name, arguments[name], given)).outcome == "completed"
