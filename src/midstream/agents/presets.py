"""The agents known by name: how each is started, told to ask and waited for, and as what it is found here.

Nothing is installed or fetched: a preset is a program of the person's own, on the PATH or where `npx` has
kept it. A preset is put into the mode in which it asks before it does anything, since it is our policy
that answers.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from midstream.language.errors import UserMistake, did_you_mean
from midstream.system.programs import command_environment, found_program, path_outside

_MAX_MANIFEST: Final = 1_000_000


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """An agent known by name.

    `program` is what is started, with `words` behind it; `package` is where npm has it, `login` how a
    person logs in. `passes` are the beginnings of names in the environment that are its own, keys among
    them. `env` is set for it. `mode` is the mode of its sessions in which it asks, "" where `env` sees to
    that. `reads`: it is offered to read files through us. Gemini CLI is not: it takes our "no such file"
    for a failure, and could make no new file.
    """

    title: str
    program: str
    words: tuple[str, ...] = ()
    package: str
    login: str
    passes: tuple[str, ...]
    env: dict[str, str] = {}
    mode: str = ""
    reads: bool = True


_ASKS: Final = json.dumps(
    dict.fromkeys(("edit", "bash", "webfetch", "websearch", "external_directory", "task"), "ask")
)

PRESETS: Final[dict[str, Preset]] = {
    "claude": Preset(
        title="Claude Code",
        program="claude-agent-acp",
        package="@agentclientprotocol/claude-agent-acp",
        login="claude",
        passes=("ANTHROPIC_", "CLAUDE_", "AWS_", "DISABLE_"),
        mode="default",
    ),
    "codex": Preset(
        title="Codex",
        program="codex-acp",
        package="@agentclientprotocol/codex-acp",
        login="codex login",
        passes=("OPENAI_", "CODEX_"),
        mode="read-only",
    ),
    "gemini": Preset(
        title="Gemini CLI",
        program="gemini",
        words=("--acp",),
        package="@google/gemini-cli",
        login="gemini",
        passes=("GEMINI_", "GOOGLE_"),
        mode="default",
        reads=False,
    ),
    "opencode": Preset(
        title="opencode",
        program="opencode",
        words=("acp",),
        package="opencode-ai",
        login="opencode auth login",
        passes=("OPENCODE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENROUTER_"),
        env={"OPENCODE_PERMISSION": _ASKS},
    ),
    "qwen": Preset(
        title="Qwen Code",
        program="qwen",
        words=("--acp",),
        package="@qwen-code/qwen-code",
        login="qwen",
        passes=("OPENAI_", "QWEN_", "DASHSCOPE_"),
        mode="default",
    ),
}
"""By the names that `acp` of an agent may give (`language.names.AGENT_PRESETS`)."""

_PASSED_ON: Final = frozenset(
    {
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
        *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"),
        *("NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY"),
    }
)
"""What every external agent gets besides what commands get: where its settings are, and the way out."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started. `name` is what it is called in errors, `key` in usage (`acp:KEY`)."""

    name: str
    key: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    mode: str = ""
    login: str = ""
    reads: bool = True


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent is waited for, in seconds: to begin, while it is silent, while it is silent and a
    call of its own is under way, and to end a turn that is to be stopped.
    """

    start_s: float = 90.0
    idle_s: float = 300.0
    working_s: float = 3_600.0
    cancel_s: float = 3.0


def resolve(acp: str | tuple[str, ...], *, workspace: Path, environ: Mapping[str, str]) -> Launch:
    """Return how an agent is started that `acp` of a workflow names. Looks at the disk; blocks shortly.

    Raises:
        UserMistake: there is no such preset or program; the hint says how it is installed.
    """
    if isinstance(acp, str):
        preset = PRESETS.get(acp)
        if preset is None:
            raise UserMistake(
                f"No external agent is known as {acp!r:.100}.", hint=did_you_mean(acp, PRESETS)
            )
        path = found(preset, workspace, environ)
        if path is None:
            raise UserMistake(
                f"{preset.title} is not installed: there is no program {preset.program}.",
                hint=f"npm install --global {preset.package}",
            )
        environment = agent_environment(environ, preset.passes, workspace)
        return Launch(
            name=preset.title,
            key=acp,
            argv=(path, *preset.words),
            environment=environment | preset.env,
            mode=preset.mode,
            login=preset.login,
            reads=preset.reads,
        )
    program, *words = acp
    path = _named(program, workspace)
    if path is None:
        raise UserMistake(
            f"The external agent cannot be started: there is no program {program!r:.100}.",
            hint="Install it, or change acp of the agent in the workflow.",
        )
    name = Path(program).name[:60]
    return Launch(
        name=name,
        key=name,
        argv=(path, *words),
        environment=agent_environment(environ, (), workspace),
    )


def _named(program: str, workspace: Path) -> str | None:
    if os.sep in program:
        path = os.path.join(workspace, program)
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
    return found_program(program, workspace)


def agent_environment(
    environ: Mapping[str, str], passes: tuple[str, ...], workspace: Path
) -> dict[str, str]:
    """Return the environment of an agent: what commands get, the way out, and what is its own."""
    own = {
        name: value
        for name, value in environ.items()
        if name in _PASSED_ON or (passes and name.startswith(passes))
    }
    path = path_outside(environ.get("PATH", os.defpath), workspace)
    return command_environment(environ) | own | {"PATH": path}


# --- what is here ---------------------------------------------------------------------------------


def found(preset: Preset, workspace: Path, environ: Mapping[str, str]) -> str | None:
    """Return the path of a preset's program: on the PATH, else where npx has kept it last."""
    path = found_program(preset.program, workspace)
    if path is not None or not environ.get("HOME"):
        return path
    places = Path(environ["HOME"], ".npm", "_npx").glob(f"*/node_modules/.bin/{preset.program}")
    kept = {place: place.lstat().st_mtime for place in places if os.access(place, os.X_OK)}
    return str(max(kept, key=kept.__getitem__)) if kept else None


def version_of(path: str) -> str:
    """Return the version that the package of a program says it is, "" where none is found.

    Starts nothing: some of them take seconds to say their version.
    """
    for folder in Path(os.path.realpath(path)).parents[:5]:
        manifest = folder / "package.json"
        try:
            if manifest.stat().st_size > _MAX_MANIFEST:
                continue
            told = msgspec.json.decode(manifest.read_bytes(), type=_Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if told.version:
            return told.version[:40]
    return ""


class _Manifest(msgspec.Struct, frozen=True):
    version: str = ""
