"""Capabilities: what a tool call would do to the world, whatever the tool is called.

Each call is reduced to the requests it makes; policy judges requests, never names of tools. A request
is written `kind: target`, which is also how a rule names it and how a grant is kept.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal[
    "read", "write", "write_protected", "exec", "shell", "net", "tool", "ask_user"
]
"""What is done.

    read, write        a file of the workspace; the target is its path, relative, with slashes
    write_protected    a file that decides what runs later (`.git`, `.midstream`, CI, hooks, rc files)
    exec               a program with arguments; the target is the argv, quoted for a shell
    shell              a line only a shell can read (`$`, `|`, `;`, redirections ...)
    net                a host
    tool               a tool that says nothing of what it does, by its name: anything may happen
    ask_user           a question to the person
"""

SandboxLevel: TypeAlias = Literal["full", "partial", "none"]
"""What commands run in, as measured: all probes held, some did, or there is no sandbox."""

PermissionMode: TypeAlias = Literal["plan", "ask", "auto", "full"]
"""How much happens unasked: nothing but reading, the same and asking, writing and sandboxed
commands, everything not denied."""


_PLAIN_WORD = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
_WILDCARDS = re.compile(r"[*?\\]")

SHOWN: Final = "shown: "
"""What a grant to one call begins with that binds it to what the person saw, followed by a digest."""


def quoted(argv: Sequence[str]) -> str:
    """Return an argv as a line that a shell, and a rule, read back as exactly it."""
    return " ".join(
        word if _PLAIN_WORD.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'"
        for word in argv
    )


class Capability(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing a call would do. `argv` is what an `exec` runs; its `target` is made from it.

    `sandboxed`: an `exec` or `shell` that will run in the sandbox, without network.
    """

    kind: Kind
    target: str
    argv: tuple[str, ...] = ()
    sandboxed: bool = False

    def __str__(self) -> str:
        """Return it as rules and grants write it: a rule of this text covers nothing else.

        So wildcards in a name stand behind a backslash, and `sandboxed` is part of what is granted.
        """
        where = "sandboxed " if self.sandboxed and self.kind in ("exec", "shell") else ""
        return f"{where}{self.kind}: {self._escaped()}"

    def _escaped(self) -> str:
        if self.kind == "exec":
            return quoted(self.argv or (self.target,))
        if self.kind == "shell":
            # A line that is nothing but a star would read as a rule for every line.
            is_star = self.target.lstrip("\\") == "*"
            return f"\\{self.target}" if is_star else self.target
        return _WILDCARDS.sub(r"\\\g<0>", self.target)
