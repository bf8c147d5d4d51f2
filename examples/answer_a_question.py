"""A program starts a run, hears its events as they come, and answers the question its agent asks.

The model is a script, and the journal stays in memory: nothing is needed, and nothing is left behind.
With `model="openai:..."` and without `journal` the same program asks a model and keeps the run.
"""

import asyncio

import midstream
from midstream.testing import ScriptedModel, asks

GREET = {
    "workflow_name": "greet",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude", "next": "stop"}, {"name": "stop"}],
}


async def main() -> None:
    """Run the workflow, and print what comes of it."""
    model = ScriptedModel(asks("What is your name?"), "Welcome, Ada.")
    async with midstream.open(model=model, journal=":memory:") as engine:
        run = await engine.start(GREET, "greet the visitor")
        async for event in run.events():  # from the first one, until the run has ended
            match event:
                case midstream.QuestionAsked(question_id=question, text=text):
                    print(f"{text} Ada")
                    await run.answer(question, "Ada")
                case midstream.StateTransition(target=state):
                    print(f"-> {state}")
        print(await run.wait())


asyncio.run(main())
