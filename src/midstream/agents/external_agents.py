"""AcpAgents: other people's agents as workers, with a program and a session for each agent of a run."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from midstream.agents.presets import Patience, resolve
from midstream.runtime.ports import ExternalListener, ExternalPrompt, ModelReply
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    from midstream.agents.conversation import Conversation


class _Held:
    """The place of one conversation."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.acp: str | tuple[str, ...] = ""
        self.folder: Path | None = None
        self.conversation: Conversation | None = None


class AcpAgents:
    """The port `ExternalAgents`, over the Agent Client Protocol. Belongs to one event loop.

    Args:
        environ: the person's environment, of which an agent gets what its preset says.
        redacted: takes secrets out of what programs write to stderr.
        patience: how long they are waited for.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        redacted: Callable[[str], str] = lambda text: text,
        patience: Patience | None = None,
    ) -> None:
        self._environ = environ
        self._redacted = redacted
        self._patience = patience or Patience()
        self._held: dict[tuple[str, str], _Held] = {}

    async def prompt(self, prompt: ExternalPrompt, listener: ExternalListener) -> ModelReply:
        """Return the reply to one prompt; see the port.

        Raises:
            UserMistake, WorldTrouble: see the port.
        """
        held = self._held.setdefault((prompt.owner, prompt.agent), _Held())
        async with held.lock:
            conversation = await self._conversation(held, prompt, listener)
            try:
                is_new = await conversation.enter(prompt)
                await listener.opened(conversation.session, is_new=is_new)
            except BaseException:
                # It may be in the midst of answering.
                await conversation.end()
                raise
            words = prompt.whole if is_new else prompt.text
            return await conversation.prompt(words, prompt.pictures, listener)

    async def _conversation(
        self, held: _Held, prompt: ExternalPrompt, listener: ExternalListener
    ) -> "Conversation":
        """Return the running program of a conversation."""
        found = held.conversation
        is_same = (held.acp, held.folder) == (prompt.acp, prompt.workspace)
        if found is not None and is_same and not found.is_over:
            return found
        if found is not None:
            held.conversation = None
            await found.end()
        look = partial(resolve, prompt.acp, workspace=prompt.workspace, environ=self._environ)
        launch = await in_thread(look)
        listener.status(f"starting {launch.name}: {' '.join(launch.argv)}")
        # Most runs have no such agent, and the types of the protocol are many.
        from midstream.agents.conversation import Conversation

        conversation = Conversation(launch, redacted=self._redacted, patience=self._patience)
        try:
            await conversation.start(prompt)
        except BaseException:
            await conversation.end()
            raise
        held.acp, held.folder, held.conversation = prompt.acp, prompt.workspace, conversation
        return conversation

    async def end(self, run: str) -> None:
        """End the programs of a run and of its branches; returns when they have ended."""
        ours = [key for key in self._held if key[0] == run or key[0].startswith(f"{run}/")]
        ending = [
            held.conversation.end(at_once=False)
            for key in ours
            if (held := self._held.pop(key)).conversation is not None
        ]
        await asyncio.gather(*ending)
