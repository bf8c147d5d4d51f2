"""The first five minutes: what there is for a person to begin with."""

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from midstream.app.switching import HOME
from midstream.codemap.languages import NOT_CODE, language_of
from midstream.config.manager import ConfigManager
from midstream.config.newcomer import may_need_coder, remember_coder
from midstream.models.endpoints import KEYS, OFFLINE, is_configured, is_offline
from midstream.models.localhost import servers_here
from midstream.runtime.storage import KeptRun
from midstream.system.offloop import in_thread
from midstream.views.welcome_screen import CODER, Found, Key, welcome

_NOT_HERE: Final = NOT_CODE | {"Shell", "SQL"}
"""Languages whose files alone make no code to review."""

_LOOKED_AT: Final = 2_000
"""Names that are looked at to find out whether there is code here."""


def model_to_answer(config: ConfigManager, environ: Mapping[str, str]) -> str:
    """Return the model that will answer once everything is loaded."""
    return config.models["base"] if is_configured(environ, config.models) else OFFLINE


async def welcome_text(config: ConfigManager, model: str, *, width: int) -> str:
    """Return the first screen; `model` is what answers now, "" where nothing is loaded yet."""
    found = await found_here(config.workspace, model or model_to_answer(config, os.environ))
    return welcome(found, width=width)


async def coder_hint(config: ConfigManager, runs: Iterable[KeptRun]) -> str:
    """Return how one gets the role that works on code, once in a repository; "" for who needs no telling.

    That is also who chose a mode in one of the `runs`, those of the workspace.
    """
    if not await in_thread(lambda: may_need_coder(config)):
        return ""
    await in_thread(lambda: remember_coder(config))
    has_chosen = any(run.summary.workflow != HOME and not run.is_foreign for run in runs)
    return "" if has_chosen else f"This is a git repository: {CODER} works on its code."


async def found_here(workspace: Path, model: str) -> Found:
    """Return what there is: keys by name, servers of models on this machine, code in the workspace.

    `model` is what answers now. Takes a third of a second at most for servers that say nothing.
    """
    endpoints = await servers_here()
    return await in_thread(
        lambda: Found(
            model=model,
            is_offline=is_offline(model),
            has_code=_has_code(workspace),
            keys=_keys(os.environ),
            endpoints=endpoints,
        )
    )


def _keys(environ: Mapping[str, str]) -> tuple[Key, ...]:
    found: dict[str, Key] = {}
    for provider, names in KEYS.items():
        # Its library alone comes with an extra.
        extra = "google" if provider == "google" and not is_there("google.genai") else ""
        for name in names:
            if name not in found and environ.get(name, "").strip():
                found[name] = Key(name=name, provider=provider, extra=extra)
    return tuple(found.values())


def is_there(module: str) -> bool:
    """Return whether a module is installed; nothing is imported but what it is in."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what it is in is not there either
        return False


def _has_code(workspace: Path) -> bool:
    """Return whether there is a file of code here, or one or two folders down."""
    left = _LOOKED_AT
    folders = [(workspace, 0)]
    while folders and left > 0:
        folder, depth = folders.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left <= 0 or entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if depth < 2:
                            folders.append((Path(entry.path), depth + 1))
                    elif language_of(entry.name) not in _NOT_HERE:
                        return True
        except OSError:
            continue
    return False
