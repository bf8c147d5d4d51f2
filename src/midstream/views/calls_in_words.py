"""A tool call, what came of it, and a question about one, in a few words: `read_files(a.py) · 120 lines`.

What a tool returns is written for a model. Of the tools that come with midstream the summary is read
off their result's first or last line; of any other it is the result's own beginning.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from midstream.core.call_notes import REFUSED
from midstream.core.costs import counted
from midstream.core.events import QuestionAsked
from midstream.core.question import Question
from midstream.core.todo import LIST_TOOL, kept_items
from midstream.language.names import EXTERNAL_KINDS, JOIN_WORKTREE, PROPOSE_PLAN, Json, Outcome
from midstream.views.cells import SUMMARY_CHARS, shortened
from midstream.views.todo_list import summary_of

_NOT_RUN = "Not run: "
_NO_OUTPUT = "(no output)"
_ARGUMENT_CHARS = 80
_TROUBLE_CHARS = 600
_JSON_CHARS = 50_000
_ITEMS = 3

_MAIN = (
    "path",
    "paths",
    "command",
    "text",
    "query",
    "pattern",
    "glob",
    "url",
    "expression",
    "question",
)
"""Arguments that say by themselves what they are, the first of them in a call."""

_LEFT_OUT = frozenset({"edits"})
"""What is shown as the difference of a file, below or on demand."""

_EXIT = re.compile(r"(?:Stopped after .*?\. )?(?:Exit code: (-?\d+)|Ended by (SIG\w+))")
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_FILE = re.compile(r"^== .+ ==$", re.MULTILINE)
_HEADS = re.compile(r"^== .+ ==\n", re.MULTILINE)
_MATCHES = re.compile(r"\[((?:the first )?[\d,]+ (?:match|file|of )[^\[\]\n]*)\]\Z")


def call_words(name: str, arguments: Mapping[str, Json]) -> str:
    """Return a call on one line, long arguments shortened; the main one stands without its name."""
    if name == LIST_TOOL and (items := kept_items(dict(arguments))) is not None:
        return f"{LIST_TOOL}({shortened(summary_of(items), _ARGUMENT_CHARS)})"
    if name == PROPOSE_PLAN and isinstance(title := arguments.get("title"), str):
        return f"{name}({_short(title)})"  # its card has the steps
    if name in EXTERNAL_KINDS and isinstance(title := arguments.get("title"), str):
        # Some agents say no more in a title than the name of their tool.
        command, paths = arguments.get("command"), arguments.get("paths")
        path = paths[0] if isinstance(paths, list) and paths else None
        more = ""
        if isinstance(command, str):
            more = f": {command}" if command not in title else ""
        elif isinstance(path, str) and path.rpartition("/")[2] not in title:
            more = f": {path}"
        return f"{name}({_short(title + more)})"
    main = next((key for key in _MAIN if key in arguments), "")
    if not main and len(arguments) == 1:
        main = next(iter(arguments))
    parts = [_short(arguments[main])] if main else []
    left_out = {main, *(_LEFT_OUT if main == "path" else ())}
    parts += [f"{key}={_short(value)}" for key, value in arguments.items() if key not in left_out]
    return f"{name}({', '.join(parts)})"


def result_words(name: str, outcome: Outcome, result: str) -> str:
    """Return what came of a call in a few words, on one line.

    Why one was refused or failed, and what a person could do about it, is hardly ever cut.
    """
    told = result.removeprefix(REFUSED).removeprefix(_NOT_RUN)
    if outcome == "completed":
        return _known(name, result) or _of_json(told) or beginning(told)
    if outcome == "failed":
        # How a command ended is the reason; else it stands below the names of the files, if at all.
        words = _known(name, result) if name == "execute_terminal" else ""
        return words or beginning(_HEADS.sub("", told), _TROUBLE_CHARS)
    if outcome == "stopped" and told.startswith("Stopped"):
        return beginning(f"s{told[1:]}", _TROUBLE_CHARS)
    return f"{outcome_words(outcome)}: {beginning(told, _TROUBLE_CHARS)}"


def output_of(name: str, result: str) -> str:
    """Return what a command printed, "" for nothing and for what is no command's result."""
    head, _, output = result.partition("\n\n")
    if name != "execute_terminal" or _EXIT.match(head) is None or output == _NO_OUTPUT:
        return ""
    return output


def tool_names(names: Sequence[str]) -> str:
    """Return the tools that were called, each once: `read_files ×2, write_file`."""
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def outcome_words(outcome: Outcome) -> str:
    """Return an outcome in words."""
    return {"not_run": "not run", "unknown": "outcome unknown"}.get(outcome, outcome)


def beginning(text: str, limit: int = SUMMARY_CHARS) -> str:
    """Return the beginning of a text on one line; what is left out is counted."""
    lines = text.strip().splitlines()
    if not lines:
        return "(nothing)"
    more = f" (+{len(lines) - 1} more lines)" if len(lines) > 1 else ""
    first = lines[0]
    left_out = len(first) - limit
    if left_out > 0:
        first = f"{first[:limit]}… (+{left_out} more characters)"
    return first + more


def _known(name: str, result: str) -> str:
    if name == "execute_terminal":
        return _of_command(result)
    if name == "read_files":
        return _of_files(result)
    if name in ("exact_search", "find_files"):
        found = _MATCHES.search(result.strip())
        return found[1] if found else ""
    if name == "list_directory" and "\n" in result.strip():
        return counted(result.strip().count("\n") + 1, "entry", "entries")
    return ""


def fields_words(values: Mapping[str, Json]) -> str:
    """Return a structured reply in a few words: `is_good no · advice: shorter, please`."""
    return " · ".join(_field_words(name, value) for name, value in values.items()) or "(nothing)"


def _field_words(name: str, value: Json) -> str:
    match value:
        case bool():
            return f"{name} {'yes' if value else 'no'}"
        case int() | float() | None:
            return f"{name} {msgspec.json.encode(value).decode()}"
        case str():
            return f"{name}: {beginning(value, _TROUBLE_CHARS)}"
        case _:
            return f"{name}: {shortened(msgspec.json.encode(value).decode(), SUMMARY_CHARS)}"


def _of_json(result: str) -> str:
    """Return what a result in JSON holds, "" for one that is none, or short enough to be shown."""
    if result[:1] not in ("{", "[") or not 60 < len(result) <= _JSON_CHARS:
        return ""
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(value, list):
        return f"list of {counted(len(value), 'item')}"
    names = shortened(", ".join(value), _ARGUMENT_CHARS)
    return f"{{{names}}}, {counted(len(result), 'character')}"


def _of_command(result: str) -> str:
    head, _, output = result.partition("\n\n")
    ended = _EXIT.match(head)
    if ended is None:
        return ""
    how = f"exit {ended[1]}" if ended[1] else f"ended by {ended[2]}"
    if "Timed out" in head:
        how += ", timed out"
    output = output.strip("\n")
    has_none = not output or output == _NO_OUTPUT
    return f"{how} · {'no output' if has_none else counted(output.count(chr(10)) + 1, 'line')}"


def _of_files(result: str) -> str:
    files = len(_FILE.findall(result))
    # Without line numbers, heads and the blank lines between files are the only others.
    lines = len(_NUMBERED.findall(result)) or len(result.splitlines()) - max(0, 2 * files - 1)
    if lines < (1 if files else 2):
        return ""
    words = counted(lines, "line")
    return words if files < 2 else f"{counted(files, 'file')}, {words}"


def _short(value: Json) -> str:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        more = f" +{len(value) - _ITEMS}" if len(value) > _ITEMS else ""
        text = ", ".join(value[:_ITEMS]) + more
    elif isinstance(value, str):
        text = value
    else:
        text = msgspec.json.encode(value).decode()
    return shortened(text.replace("\n", "⏎"), _ARGUMENT_CHARS)


# --- questions: who asks, and what about ------------------------------------------------------------


def asker(question: Question | QuestionAsked) -> str:
    """Return who asks. Whether a budget is raised no workflow asks, but whoever counts it."""
    return question.agent or ("midstream" if question.about == "budget" else "the workflow")


def question_heading(question: Question | QuestionAsked) -> str:
    """Return who asks what, such as `#2 ada asks`, or `#2 ada wants to change calc.py  +2 -0`."""
    number = f"#{question.number} " if question.number else ""
    who = asker(question)
    if question.branch:
        who = f"{question.branch} ▌ {who}"
    if question.kind != "approval":
        return f"{number}{who} asks"
    if question.about == "plan":
        return f"{number}{who} proposes a plan"
    name, _, shown = question.text.partition("\n")
    if name == JOIN_WORKTREE:
        return f"{number}{question.branch} wants to merge {shown.partition(chr(10))[0]}"
    if (head := head_of_diff(question.text)) is None:
        return f"{number}{who} wants to run"
    lines = question.text.split("\n")
    verb = "create" if lines[head] == _NO_FILE else "change"
    what = lines[head + 1].removeprefix("+++ ")
    return f"{number}{who} wants to {verb} {what}{_figures(lines[head + 2 :])}"


_NO_FILE: Final = "--- /dev/null"
_WRITERS: Final = ("write_file", "edit_file")


def head_of_diff(text: str) -> int | None:
    """Return which line of an approval is the first of a difference's head, None where there is none.

    Only of our own tools that write files: what another one shows may hold anything. Before it stand
    the tool's name and sentences about the file.
    """
    lines = text.split("\n")
    if lines[0] not in _WRITERS:
        return None
    for number, (line, after) in enumerate(pairwise(lines)):
        if after.startswith("+++ ") and line in (_NO_FILE, f"--- {after[4:]}"):
            return number
    return None


def _figures(lines: Sequence[str]) -> str:
    """Return how many lines come and go, "" where the difference does not show them all."""
    if any(line.startswith("[+") for line in lines) or not any(
        line.startswith("@@ ") for line in lines
    ):
        return ""
    added = sum(line.startswith("+") for line in lines)
    return f"  +{added} -{sum(line.startswith('-') for line in lines)}"


def question_summary(question: Question | QuestionAsked) -> str:
    """Return a question on one line; of an approval the tool and its command, or the file it changes."""
    if question.kind != "approval":
        return beginning(question.text)
    tool, *rest = question.text.split("\n")
    if tool == JOIN_WORKTREE and rest:
        return shortened(f"merge {rest[0]}")
    if question.about == "plan":
        return shortened(rest[0]) if rest else tool
    about = [line[4:] for line in rest if line.startswith("+++ ")]
    about += [line for line in rest if line.startswith("$ ") or len(rest) == 1]
    return shortened(f"{tool} {about[0]}") if about else beginning(question.text)
