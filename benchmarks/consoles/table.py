"""The consoles, as data: how each is installed, started, stopped, resumed, and told to use our server.

In every text `$URL` is the server's address, `$HOME` the home folder made for one start, `$WORK` the folder
worked in, `$BIN` where the program was installed. Each console is set up as its own documentation says for
a model of one's own: onboarding and the question whether the folder is trusted are answered beforehand,
updates and reports to its maker are off, and reading and running commands need no approval.
"""

from typing import Final, Literal

import msgspec


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A console.

    `prompt` matches the screen once the prompt stands there. `reading` and `command` are the calls its
    tools for reading `stone.txt` and for running a command are given: the name, and the arguments as text,
    in which `$COMMAND` is the command. `question` is one it may ask when it is resumed, and the keys that
    answer it. `tools`: it offers its model any; `calls_whole`: its API sends calls in one piece. `settings`
    says what was set that is not its default. A file that begins with `<` is copied from where that pattern
    leads, seen from `$BIN`.
    """

    name: str
    package: str = ""
    by: Literal["npm", "pip", ""] = "npm"
    program: tuple[str, ...]
    resume: tuple[str, ...] = ()
    prompt: str
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    reading: tuple[str, str] = ("", "")
    command: tuple[str, str] = ("", "")
    question: tuple[str, str] = ("", "")
    stop: tuple[str, ...] = ("\x1b",)
    stop_name: str = "Esc"
    settings: str = ""
    help: tuple[str, ...] = ("--help",)
    tools: bool = True
    calls_whole: bool = False
    is_floor: bool = False


BARE: Final = Console(
    name="a bare prompt",
    by="",
    program=("$PYTHON", "$BENCHMARKS/programs/bare_prompt.py", "$HOME"),
    prompt="›",
    is_floor=True,
)
"""What every start is divided by: a prompt of prompt_toolkit with history and completion, and no more."""

_KEY = "sk-nobody-00000000000000000000000000000"
_CHAT = {"OPENAI_BASE_URL": "$URL/v1", "OPENAI_API_KEY": _KEY}

MIDSTREAM: Final = Console(
    name="midstream",
    by="",
    program=("$VENV/midstream", "--mode", "role:coder", "--allow", "execute_terminal"),
    resume=("--continue",),
    prompt=r"^›",
    env={**_CHAT, "MIDSTREAM_MODEL": "openai:bench"},
    reading=("read_files", '{"paths": ["stone.txt"]}'),
    command=("execute_terminal", '{"command": "$COMMAND"}'),
    question=("What became of it?", "3\r"),
    settings="the role coder; commands allowed",
)

_CLAUDE_STATE = """{"hasCompletedOnboarding": true, "theme": "dark", "numStartups": 9, "autoUpdates": false,
 "customApiKeyResponses": {"approved": ["00000000000000000000"], "rejected": []},
 "projects": {"$WORK": {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}}""".replace(
    "$APPROVED", _KEY[-20:]
)
_CODEX = """model = "gpt-5.4"
model_provider = "bench"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.bench]
name = "bench"
base_url = "$URL/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[projects."$WORK"]
trust_level = "trusted"
"""
_OPENCODE = """{"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
 "model": "bench/bench", "small_model": "bench/bench",
 "provider": {"bench": {"npm": "@ai-sdk/openai-compatible", "name": "bench",
  "options": {"baseURL": "$URL/v1", "apiKey": "nobody"},
  "models": {"bench": {"name": "bench", "tool_call": true,
   "limit": {"context": 200000, "output": 8000}}}}}}"""
_PI = """{"providers": {"bench": {"baseUrl": "$URL/v1", "api": "openai-completions", "apiKey": "nobody",
 "models": [{"id": "bench", "name": "bench", "reasoning": false, "input": ["text"],
  "contextWindow": 200000, "maxTokens": 8000,
  "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}"""

RIVALS: Final = (
    Console(
        name="Claude Code",
        package="@anthropic-ai/claude-code",
        program=("$BIN/claude", "--permission-mode", "default", "--allowedTools", "Bash Read"),
        resume=("--continue",),
        prompt=r"^❯|^>|│ >",
        env={
            "ANTHROPIC_BASE_URL": "$URL",
            "ANTHROPIC_API_KEY": _KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        files={".claude.json": _CLAUDE_STATE},
        reading=("Read", '{"file_path": "$WORK/stone.txt"}'),
        command=("Bash", '{"command": "$COMMAND", "timeout": 600000}'),
        settings="Read and Bash allowed",
    ),
    Console(
        name="Codex",
        package="@openai/codex",
        program=("$BIN/codex",),
        resume=("resume", "--last"),
        prompt=r"^\s*›",
        env={"OPENAI_API_KEY": _KEY},
        files={".codex/config.toml": _CODEX},
        reading=("exec_command", '{"cmd": "cat stone.txt"}'),
        command=("exec_command", '{"cmd": "$COMMAND", "yield_time_ms": 30000}'),
        settings="a provider of one's own; approvals and its sandbox off",
    ),
    Console(
        name="Gemini CLI",
        package="@google/gemini-cli",
        program=("$BIN/gemini", "--yolo", "--skip-trust", "--model", "gemini-2.5-pro"),
        resume=("--resume", "latest"),
        prompt=r"Type your message",
        env={"GEMINI_API_KEY": _KEY, "GOOGLE_GEMINI_BASE_URL": "$URL"},
        files={
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}},'
            ' "general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false}}'
        },
        reading=("read_file", '{"file_path": "stone.txt"}'),
        command=("run_shell_command", '{"command": "$COMMAND"}'),
        calls_whole=True,
        settings="--yolo",
    ),
    Console(
        name="Qwen Code",
        package="@qwen-code/qwen-code",
        program=("$BIN/qwen", "--yolo", "--auth-type", "openai", "--model", "bench"),
        resume=("--continue",),
        prompt=r"Type your message",
        env=_CHAT,
        files={
            ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}},'
            ' "general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false}}'
        },
        reading=("read_file", '{"file_path": "$WORK/stone.txt"}'),
        command=("run_shell_command", '{"command": "$COMMAND", "is_background": false}'),
        settings="--yolo",
    ),
    Console(
        name="opencode",
        package="opencode-ai",
        program=("$BIN/opencode", "--auto"),
        resume=("--continue",),
        prompt=r"Ask anything|Build",
        env={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        files={".config/opencode/opencode.json": _OPENCODE},
        reading=("read", '{"filePath": "$WORK/stone.txt"}'),
        command=("bash", '{"command": "$COMMAND", "description": "waits", "timeout": 600000}'),
        stop=("\x1b", "\x1b"),
        stop_name="Esc Esc",
        settings="--auto",
    ),
    Console(
        name="pi",
        package="@mariozechner/pi-coding-agent",
        program=("$BIN/pi", "--offline", "--provider", "bench", "--model", "bench"),
        resume=("--continue",),
        prompt=r"bench",
        env={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        files={".pi/agent/models.json": _PI},
        reading=("read", '{"path": "stone.txt"}'),
        command=("bash", '{"command": "$COMMAND"}'),
        settings="--offline",
    ),
    Console(
        name="aider",
        package="aider-chat",
        by="pip",
        program=(
            *(
                "$BIN/aider",
                "--model",
                "openai/bench",
                "--no-check-update",
                "--no-analytics",
                "--yes-always",
            ),
            *("--no-show-model-warnings", "--no-show-release-notes", "--no-gitignore"),
        ),
        resume=("--restore-chat-history",),
        prompt=r"^(?:\w+ )?>",
        env={
            "OPENAI_API_KEY": _KEY,
            "OPENAI_API_BASE": "$URL/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        files={
            ".aider/caches/model_prices_and_context_window.json": "<../lib/python3*/site-packages/litellm/"
            "model_prices_and_context_window_backup.json"
        },
        tools=False,
        stop=("\x03",),
        stop_name="Ctrl-C",
        settings="--yes-always",
    ),
    Console(
        name="llm chat",
        package="llm",
        by="pip",
        program=("$BIN/llm", "chat", "-m", "bench"),
        resume=("--continue",),
        prompt=r"^>",
        env={"OPENAI_API_KEY": _KEY, "LLM_USER_PATH": "$HOME/llm"},
        files={
            "llm/extra-openai-models.yaml": "- model_id: bench\n  model_name: bench\n  api_base: $URL/v1\n"
        },
        tools=False,
        stop=("\x03",),
        stop_name="Ctrl-C",
        help=("chat", "--help"),
    ),
)
