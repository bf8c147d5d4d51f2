"""Capabilities: what a tool call would do to the world, whatever the tool is called.

Each call is reduced to the requests it makes; policy judges requests, never names of tools. A request
is written `kind: target`, which is also how a rule names it and how a grant is kept.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from midstream.safety.protected import Purpose

Kind: TypeAlias = Literal[
    "read", "write", "write_protected", "exec", "shell", "outside", "net", "tool", "ask_user"
]
"""What is done.

    read, write        a file of the workspace; the target is its path, relative, with slashes
    write_protected    a file that decides what runs later (`.git`, `.midstream`, CI, hooks, rc files)
    exec               a program with arguments; the target is the argv, quoted for a shell
    shell              a line only a shell can read (`$`, `|`, `;`, redirections ...)
    outside            that a command runs with the person's rights, not in a whole sandbox; requested
                       beside its `exec` or `shell`, which says nothing of where it runs
    net                a host
    tool               a tool that says nothing of what it does, by its name: anything may happen
    ask_user           a question to the person
"""

SandboxLevel: TypeAlias = Literal["full", "partial", "none"]
"""What commands run in, as measured: all probes held, some did, or there is no sandbox."""

PermissionMode: TypeAlias = Literal["plan", "ask", "auto", "full"]
"""How much happens unasked: nothing but reading, the same and asking, writing and commands in
the sandbox, everything not denied."""


_PLAIN_WORD = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
_WILDCARDS = re.compile(r"[*?\\]")

UNREADABLE: Final = "?"
"""Stands in a list of rules for one that cannot be read, or not told apart from others."""

SHOWN: Final = "shown: "
"""What a grant to one call begins with that binds it to what the person saw, followed by a digest."""


def quoted(argv: Sequence[str]) -> str:
    """Return an argv as a line that a shell, and a rule, read back as exactly it."""
    return " ".join(
        word if _PLAIN_WORD.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'"
        for word in argv
    )


class Capability(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing a call would do. `argv` is what an `exec` or `outside` runs; its `target` says it.

    `left_out` are the rules on reading, as texts, that a command cannot break, by how it is started.
    """

    kind: Kind
    target: str
    argv: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as rules and grants write it: a rule of this text covers nothing else.

        So wildcards in a name stand behind a backslash.
        """
        return f"{self.kind}: {self._escaped()}"

    def _escaped(self) -> str:
        if self.kind in ("exec", "outside"):
            return quoted(self.argv or (self.target,))
        if self.kind == "shell":
            # A line that is nothing but a star would read as a rule for every line.
            is_star = self.target.lstrip("\\") == "*"
            return f"\\{self.target}" if is_star else self.target
        return _WILDCARDS.sub(r"\\\g<0>", self.target)


PURPOSES: Final[dict[str, "Purpose"]] = {
    "read": "read",
    "write": "write",
    "write_protected": "write",
}
"""What a file is opened for, by the kinds that are about files."""


def forbids_secrets(request: Capability) -> str:
    """Object to secret files and to nothing else: what a context does that no policy stands behind."""
    from midstream.safety.protected import classify_path  # no call comes before the prompt

    purpose = PURPOSES.get(request.kind)
    if purpose is None:
        return ""
    standing, reason = classify_path(request.target, purpose)
    return f"{request.target}: {reason}" if standing == "secret" else ""


STARTERS: Final = frozenset(
    {
        *("env", "sudo", "doas", "nice", "ionice", "nohup", "timeout", "time", "xargs", "stdbuf"),
        *("setsid", "chroot", "unshare", "strace", "watch", "busybox", "toybox", "command", "exec"),
        *("find", "flock", "script", "parallel", "bash", "sh", "dash", "zsh", "ksh", "fish", "ssh"),
        *("docker", "podman", "su", "runuser", "systemd-run", "builtin", "entr", "ltrace", "npx"),
        *("tmux", "screen", "gdb", "perf", "rlwrap", "unbuffer", "chronic", "sg"),
    }
)
"""Programs that start another one, which stands in their arguments."""
