"""Words typed while an agent speaks cut it at once, and lead the run to its state `resume`.

The scripted model stops before a gate after two pieces of its reply, which is where the words come.
"""

import asyncio

from midstream import WorkflowStateMachine
from midstream.testing.fakes import Chronicle, Gate, ScriptedModel, define, fake_world, says

WORKFLOW = define(
    {
        "workflow_name": "plan",
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": "architect", "context": "talk"}],
        "states": [
            {"name": "start", "agent": "architect", "next": "stop"},
            {"name": "resume", "agent": "architect", "next": "stop"},
            {"name": "stop"},
        ],
    }
)


async def main() -> None:
    """Interrupt a run, and print what its `resume` state is given."""
    gate = Gate()
    model = ScriptedModel(says("First rewrite ", "the parser", gate=gate, after=2), "Rename it.")
    told = Chronicle()
    machine = WorkflowStateMachine(WORKFLOW, fake_world(model), tap=told)
    await machine.start("tidy up the parser")
    await gate.reached()  # the reply stands at its third piece
    receipt = await machine.say("no, only rename it")
    run = await machine.wait()
    print("what became of the words:", receipt.handling)
    print("states:", " ".join(told.path()))
    print("words:", run.common_data["resume_input"])
    print("cut in:", run.common_data["interrupted_state"])
    print("was saying:", run.common_data["interrupted_text"])
    print("the agent then hears:")
    for side, words in model.asked[-1].words():
        print(f"  {side}: {words}")
    print("output:", run.output)


asyncio.run(main())
