"""A program starts a run, hears its events as they come, and answers the question its agent asks.

The model is a script, so that nothing is needed. `midstream.testing.fakes.fake_world` stands for the
adapters a real run has: see "Adapters" in docs/library.md.
"""

import asyncio

from midstream import WorkflowStateMachine
from midstream.core.events import QuestionAsked, WorkflowOutput
from midstream.testing.fakes import ScriptedModel, asks, define, fake_world

WORKFLOW = define(
    {
        "workflow_name": "greet",
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": "host", "context": "talk"}],
        "states": [{"name": "start", "agent": "host", "next": "stop"}, {"name": "stop"}],
    }
)


async def main() -> None:
    """Run the workflow, and print what comes of it."""
    model = ScriptedModel(asks("What is your name?"), "Welcome, Ada.")
    machine = WorkflowStateMachine(WORKFLOW, fake_world(model))
    await machine.start("greet the visitor")
    async for envelope in machine.events():  # from the first one, until the run has ended
        match envelope.event:
            case QuestionAsked(question_id=question, text=text):
                print(f"{text} Ada")
                await machine.say("Ada", question=question)
            case WorkflowOutput(text=text):
                print(text)


asyncio.run(main())
