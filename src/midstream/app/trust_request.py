"""`/trust`: the workspace's own files as they are now, and a yes to exactly those that were shown."""

import hashlib

from midstream.app.ui import UI
from midstream.config.manager import ConfigManager
from midstream.config.trust import TrustStatus, TrustStore, session_grant
from midstream.config.trust_preview import told_files
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.system.own_process import STDIN, is_terminal


class TrustRequest:
    """Lets files of the workspace take part that were not there, or others, when midstream began.

    Args:
        config: what is trusted is read through it from then on.
        ui: where the files are shown.
    """

    def __init__(self, config: ConfigManager, ui: UI) -> None:
        self._config = config
        self._ui = ui
        self._store = TrustStore(config.state_dir)
        self._shown: TrustStatus | None = None

    async def look(self) -> None:
        """Show the files and what has changed of them; `agree` is then about these."""
        status = await in_thread(
            lambda: self._store.status(self._config.workspace, looks_below=True)
        )
        if status.kind == "no_files":
            self._ui.say("This workspace has no files of its own to trust.")
            return
        if status.kind == "trusted" and self._config.grant is not None:
            await in_thread(lambda: self._config.trust(self._store.grant(status)))
            self._ui.say("This workspace is trusted as it stands.")
            return
        lines = await in_thread(lambda: [*told_files(status, self._store)])
        self._shown = status
        self._ui.say("\n".join(["This workspace has its own files:", *map("".join, lines)]))
        # Not put into the line: an Enter too many would be a yes to what nobody has read.
        self._ui.say(f"/trust {_code(status)} trusts exactly these files.", kind="note")

    async def agree(self, code: str) -> None:
        """Trust the files that were shown with this code.

        Raises:
            UserMistake: none were, they are others now, or nobody is at a terminal.
            WorldTrouble: it cannot be remembered.
        """
        shown = self._shown
        if shown is None or code.casefold() != _code(shown):
            raise UserMistake("No files were shown with that code.", hint="/trust shows them.")
        if not is_terminal(STDIN):
            raise UserMistake(
                "Trusting a folder needs a person at a terminal.",
                hint="Run midstream trust in one.",
            )
        self._shown = None
        status = await in_thread(
            lambda: self._store.status(self._config.workspace, looks_below=True)
        )
        if status != shown:
            await self.look()
            raise UserMistake(
                "The files have changed meanwhile: nothing was trusted.",
                hint="The code above is for what they are now.",
            )
        await in_thread(lambda: self._config.trust(self._store.grant(status)))
        if self._config.is_untrusted:
            self._ui.say("Trusted. This console still only reads: restart midstream.")
            return
        self._ui.say(
            "Trusted. Roles, workflows and commands can be used now, tools and settings after a restart."
        )


def _code(status: TrustStatus) -> str:
    """Return what a yes gives back, so that it is about what was shown: six letters of a digest."""
    files = sorted(session_grant(status).files.items())
    return hashlib.sha256(repr(files).encode()).hexdigest()[:6]
