"""Questions beside a conversation: nothing is interrupted, and it hears nothing of them.

The conversation is forked as a value, in memory: the run as it stands, with the question as its last words,
is what the model is asked with. No fact is journaled, so nothing of it has to be taken back.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from midstream.app.switching import Switching
from midstream.core.costs import Cost, in_words
from midstream.core.events import Usage, WordsJoined
from midstream.core.fold.apply import apply
from midstream.core.run import Run
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.agent import WorkflowAgent
from midstream.runtime.pictures import with_contents
from midstream.runtime.ports import ModelRequest
from midstream.runtime.user_words import readable
from midstream.system.offloop import in_thread, unless_stopped

ESC_WITHDRAWS: Final = "Esc withdraws /btw"
"""What Esc does while an answer is waited for and no turn is under way."""

ASKED: Final = """\
A question beside the conversation, which goes on without it. Answer in words, from what you know, \
and call no tool:"""


class SideQuestions:
    """The side questions of a session. What cannot be done raises `UserMistake`.

    Args:
        switching: what lines go to; the run that is active is asked beside.

    Attributes:
        cost: what they used since the console began: it stands in no run, since no fact tells of it.
    """

    def __init__(self, switching: Switching) -> None:
        self._switching = switching
        self._last = ""
        self._stops: list[asyncio.Event] = []
        self.cost = Cost()

    @property
    def is_asking(self) -> bool:
        """Return whether an answer is waited for."""
        return not all(stop.is_set() for stop in self._stops)

    async def ask(self, words: str) -> None:
        """Show the answer of the agent that lines go to; returns then.

        Raises:
            UserMistake: there is no conversation, or no words came.
            MidstreamError: the model cannot be asked.
        """
        machine = self._switching.active()
        agent = "" if machine is None else _agent_of(machine.run)
        if machine is None or not agent:
            raise UserMistake(
                "There is no agent whose conversation this could be asked beside.",
                hint="Say it as a line of its own.",
            )
        world, ui = self._switching.runs.parts.engine.world, self._switching.ui
        question = world.redactor.redacted(readable(words))
        # What tools need no yes, and what a run may use, does not matter here: it only speaks.
        request = await in_thread(partial(_request, machine.run, agent, question))
        request = await with_contents(request, world.blobs)
        ui.say(f"{agent} is asked beside the conversation.", kind="note")
        heard = _Unheard()
        stop = asyncio.Event()
        self._stops.append(stop)
        ui.refresh()
        try:
            reply = await unless_stopped(world.model.request(request, heard), stop)
        except (asyncio.CancelledError, MidstreamError):
            self._count(heard.used())
            raise
        finally:
            self._stops.remove(stop)
            ui.refresh()
        asked = self._count(heard.used() if reply is None else reply.usage)
        cost = f" ({in_words(asked)})" if asked.requests else ""
        if reply is None:
            ui.say(f"The question beside the conversation is withdrawn{cost}.", kind="note")
            return
        answer = world.redactor.redacted(readable(reply.text)).strip()
        if not answer:
            raise UserMistake(
                f"{agent} gave no words, but wanted to call a tool.",
                hint="Say it as a line of its own.",
            )
        self._last = f"I asked beside this: {question}\nThe answer was: {answer}"
        ui.say(f"{agent}, beside the conversation:\n{answer}")
        ui.say(
            f"The conversation has not heard of this{cost}. /btw alone puts it into your line.",
            kind="note",
        )

    def _count(self, usage: Usage | None) -> Cost:
        """Return what one question cost, which is among what all of them did."""
        asked = Cost() if usage is None else Cost().and_also(usage)
        self.cost = self.cost.plus(asked)
        return asked

    def stop(self) -> bool:
        """Withdraw the newest question that waits for its answer; return whether there was one."""
        newest = next((stop for stop in reversed(self._stops) if not stop.is_set()), None)
        if newest is not None:
            newest.set()
        return newest is not None

    def take_over(self) -> None:
        """Put the last question and its answer into the editor, to be sent to the conversation."""
        if not self._last:
            raise UserMistake("Nothing was asked beside a conversation yet.", hint="/btw QUESTION")
        self._switching.ui.hand(self._last)


def _agent_of(run: Run) -> str:
    """Return whose conversation is asked beside: who is at work, else the only agent there is."""
    if run.definition is None:
        return ""
    if run.visit.turn is not None and run.visit.turn.agent:
        return run.visit.turn.agent
    agents = list(run.plan.agents)
    return agents[0] if len(agents) == 1 else ""


def _request(run: Run, agent: str, question: str) -> ModelRequest:
    """Return the request with the question, its beginning that of the agent's own: a cache knows it."""
    asked = WordsJoined(context=run.plan.agents[agent].context, text=f"{ASKED}\n\n{question}")
    return replace(WorkflowAgent(apply(run, asked), agent).request(), must_call=False)


class _Unheard:
    """Hears a reply as it streams; all of it is shown once it is there."""

    def __init__(self) -> None:
        self.used: Callable[[], Usage | None] = lambda: None

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the question has cost so far."""
        self.used = used

    def text(self, delta: str) -> None:
        """Hear a piece of the words."""

    def thinking(self, delta: str) -> None:
        """Hear a piece of the reasoning."""

    def calling(self, name: str) -> None:
        """Hear that a tool is asked for: it is not called."""

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
