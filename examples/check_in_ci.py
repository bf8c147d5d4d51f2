"""A check for a CI: a model reviews a change, within a budget, and the exit code says what came of it.

    git diff origin/main | python examples/check_in_ci.py

0: approved. 1: not approved, or the review failed. 4: it waits for a person, such as for a larger budget;
the run is kept, also when the CI ends this program before. A job that keeps `review.db` as an artifact
lets somebody go on with it later.

Nothing of the change is believed: its own `.midstream/` is left alone, and the agent only reads.
"""

import asyncio
import sys

import midstream

BUDGET = {"usd": 0.50, "tokens": 200_000, "minutes": 10}
REVIEW = {
    "workflow_name": "review_change",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "code_reviewer", "context": "talk"}],
    "states": [
        {
            "name": "start",
            "agent": "code_reviewer",
            "prompt": "Is this change right, and is it tested?\n\n${input}",
            "save_as": "common_data.verdict",
        },
        {"name": "stop"},
    ],
}


async def main() -> int:
    """Return the exit code."""
    change = sys.stdin.read()
    async with midstream.open(journal="review.db", trust=False, permissions="plan") as engine:
        run = await engine.start(REVIEW, change, budget=BUDGET)
        try:
            await run.wait(answers=[])
        except midstream.MidstreamError as error:
            print(error, file=sys.stderr)
            return 1 if run.run.is_over else 4
        verdict = run.data["verdict"]
        print(verdict["comments"])
        return 0 if verdict["approved"] else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
