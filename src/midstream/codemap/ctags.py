"""What a file defines, by universal-ctags where it is installed.

It is fed from here and shut in a sandbox of its own: it opens nothing.
"""

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from midstream.codemap.definitions import (
    MAX_DEFINITIONS,
    MAX_MEMBERS,
    NAME_CHARS,
    Definition,
    Definitions,
)
from midstream.system.programs import found_program
from midstream.system.supervisor import DROPPED, PIPED, Child
from midstream.views.cells import shortened

_CTAGS_S: Final = 5.0
_MAX_ANSWER: Final = 4_000_000

_KINDS: Final = frozenset(
    {
        *("class", "interface", "struct", "enum", "trait", "module", "function", "func", "method"),
        *(
            "type",
            "typedef",
            "union",
            "object",
            "protocol",
            "implementation",
            "macro",
            "subroutine",
        ),
        *("namespace", "procedure", "singletonMethod", "generator", "constant", "table", "view"),
        *("record", "annotation", "extension"),
    }
)
_HIDDEN: Final = frozenset({"constant", "type", "typedef", "macro"})
"""Kinds that count only on the outside: in a class they are details."""


class Ctags:
    """universal-ctags as a child process that is told files' contents and opens none itself.

    `close` ends it. One that answers wrongly or too late is ended, and finds nothing any more.
    """

    def __init__(self, program: str) -> None:
        self._child: Child | None = None
        self._rest = b""
        with suppress(OSError):
            self._child = Child(
                [program, "--options=NONE", "--_interactive=sandbox", "--fields=+nKS"],
                folder=Path("/"),
                environment={"LC_ALL": "C.UTF-8"},
                stdin=PIPED,
                stderr=DROPPED,
            )
            self._child.listen()
        said = self._answer()
        if said.get("_type") != "program" or "Universal" not in str(said.get("name")):
            self.close()

    def definitions(self, name: str, data: bytes) -> Definitions:
        """Return what a file of that name and content defines, nothing where ctags cannot say."""
        if self._child is None or (stdin := self._child.process.stdin) is None:
            return ()
        asked = {"command": "generate-tags", "filename": name, "size": len(data)}
        try:
            # It reads all of it before it answers.
            stdin.write(json.dumps(asked).encode() + b"\n" + data)
            stdin.flush()
        except OSError:
            self.close()
            return ()
        tags = []
        while (said := self._answer()).get("_type") == "tag":
            tags.append(said)
        if said.get("_type") != "completed":
            self.close()
        return _grouped(tags)

    def _answer(self) -> dict[str, object]:
        """Return the next line of what it says, {} when there is none in time."""
        child, ends_at = self._child, time.monotonic() + _CTAGS_S
        if child is None:
            return {}
        while b"\n" not in self._rest:
            is_late = time.monotonic() > ends_at
            if child.is_silent or is_late or len(self._rest) > _MAX_ANSWER:
                return {}
            child.wait(ends_at - time.monotonic())
            self._rest += child.read()
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            said = json.loads(line)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _grouped(tags: list[dict[str, object]]) -> Definitions:
    """Return tags as definitions: what has a scope that is one is its member."""
    found: dict[str, Definition] = {}
    members: dict[str, list[str]] = {}
    for tag in tags:
        name, kind, line = str(tag.get("name", "")), str(tag.get("kind", "")), tag.get("line")
        if kind not in _KINDS or not isinstance(line, int) or not name or "__anon" in name:
            continue
        scope = re.split(r"[.:]+", str(tag.get("scope", "")))[-1]
        is_inside = tag.get("scopeKind") not in (None, "package", "namespace", "module")
        if scope and is_inside:
            if kind not in _HIDDEN:
                members.setdefault(scope, []).append(name)
            continue
        signature = " ".join(str(tag.get("signature", "")).split())
        what = f"{kind} {name}{shortened(signature, NAME_CHARS)}"
        if len(found) < MAX_DEFINITIONS:
            found.setdefault(name, Definition(line, name, what))
    return tuple(
        msgspec.structs.replace(each, members=tuple(members.get(each.name, ())[:MAX_MEMBERS]))
        for each in sorted(found.values(), key=lambda each: each.line)
    )


def find_ctags(root: Path) -> Ctags | None:
    """Return a ctags that is ready, None where none is installed."""
    program = found_program("ctags", root)
    return None if program is None else Ctags(program)
