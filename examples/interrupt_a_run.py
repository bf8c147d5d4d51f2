"""Words said while an agent speaks cut it at once, and lead the run to its state `resume`.

The scripted model stops before a gate after two pieces of its reply, which is where the words come.
"""

import asyncio

import midstream
from midstream.testing import Gate, ScriptedModel, says

PLAN = {
    "workflow_name": "plan",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "architect", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "architect", "next": "stop"},
        {"name": "resume", "agent": "architect", "next": "stop"},
        {"name": "stop"},
    ],
}


async def main() -> None:
    """Interrupt a run, and print what its `resume` state is given."""
    gate = Gate()
    model = ScriptedModel(says("First rewrite ", "the parser", gate=gate, after=2), "Rename it.")
    async with midstream.open(model=model, journal=":memory:") as engine:
        run = await engine.start(PLAN, "tidy up the parser")
        await gate.reached()  # the reply stands at its third piece
        await run.say("no, only rename it")
        output = await run.wait()
        print("words:", run.data["resume_input"])
        print("cut in:", run.data["interrupted_state"])
        print("was saying:", run.data["interrupted_text"])
        print("the agent then hears:")
        for side, words in model.asked[-1].words():
            print(f"  {side}: {words}")
        print("output:", output)


asyncio.run(main())
