"""Opening the settings at the start: with the workspace's own files if they may be used."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from midstream.config.directories import OTHERS_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.trust import (
    AGENTS,
    TrustStatus,
    TrustStore,
    granted,
    is_below,
    only_speaks,
    session_grant,
    still_granted,
)
from midstream.core.guidance import AGENTS_FILE
from midstream.language.errors import NotTrusted, WorldTrouble


def open_settings(
    workspace: Path,
    *,
    mode: str | None = None,
    model: str | None = None,
    trusts_workspace: bool | None = None,
    asks: Callable[[TrustStatus, TrustStore], bool] | None = None,
) -> ConfigManager:
    """Return the settings, those of the workspace only if it is trusted.

    Args:
        workspace: the folder midstream works in.
        mode, model: what the command line said.
        trusts_workspace: of what is there now, True: all may be used, this time; False: nothing is,
            whoever has trusted it, and nobody is asked.
        asks: asks a person whether to trust the workspace; None where nobody is there.
    """
    config = ConfigManager(workspace, mode=mode, model=model)
    store = TrustStore(config.state_dir)
    status = store.status(workspace)
    if trusts_workspace or (asks is not None and status.kind in ("untrusted", "changed")):
        status = store.status(workspace, looks_below=True)
    given = None if trusts_workspace is False else granted(status)
    if given is not None:
        config.trust(given)
    elif status.kind != "no_files" and trusts_workspace:
        config.trust(session_grant(status))
    elif (
        status.kind != "no_files"
        and trusts_workspace is None
        and asks is not None
        and asks(status, store)
    ):
        _trust_for_good(config, store, status)
    else:
        rest = None if trusts_workspace is False else still_granted(status)
        if rest is not None:
            config.trust(rest)
        config.is_untrusted = status.kind != "no_files" and status.acts and rest is None
        given_now = rest.files if rest is not None else {}
        unread = {file.name for file in status.files}.difference(given_now)
        if AGENTS in unread:
            config.notice(UNREAD)
        if any(only_speaks(name) and name != AGENTS and not is_below(name) for name in unread):
            config.notice(UNREAD_BESIDE)
    return config


UNREAD = (
    f"The {AGENTS_FILE} here is not read: its current version is not trusted. `midstream trust` looks "
    "at it."
)


UNREAD_BESIDE = (
    f"The commands and skills of {OTHERS_FOLDER}/ here are not read: they are not trusted as they stand. "
    "`midstream trust` looks at them."
)


def _trust_for_good(config: ConfigManager, store: TrustStore, status: TrustStatus) -> None:
    """Use the files, and remember the yes if it can be written down: a full disk is no no."""
    try:
        config.trust(store.grant(status))
    except WorldTrouble as trouble:
        notice = f"You will be asked again next time: {trouble.what}"
        config.trust(session_grant(status), notice=notice)


def read_untrusted(config: ConfigManager) -> None:
    """Let JSON of the workspace be read as it is now, for those who only look at it.

    Call it once everything that imports files of a workspace has been made: it grants them, too.
    """
    status = TrustStore(config.state_dir).status(config.workspace)
    if status.kind != "no_files":
        config.trust(session_grant(status))


_WAYS: Final = (
    "--trust-workspace (in a program trust=True); "
    "--no-trust-workspace (trust=False) leaves it alone"
)


def require_trust(config: ConfigManager, *, is_needed: bool = False) -> None:
    """Return unless the workspace has files of its own that nobody has trusted.

    `is_needed`: there is nothing to do here without them.

    Raises:
        NotTrusted: it has; the message names them.
    """
    if config.grant is not None:
        return
    status = TrustStore(config.state_dir).status(config.workspace)
    if status.kind == "no_files" or not status.acts:
        return
    acting = [file.name for file in status.files if not only_speaks(file.name)]
    names = ", ".join(acting[:5])
    more = f" and {len(acting) - 5} more" if len(acting) > 5 else ""
    ways = "--trust-workspace" if is_needed else _WAYS
    raise NotTrusted(
        f"The workspace's .midstream/ is not trusted ({names}{more}).",
        hint=f"Look at it and trust it with: midstream trust. For this time alone: {ways}.",
    )
