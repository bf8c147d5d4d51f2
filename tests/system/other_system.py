"""Make this process look like one on another system, as far as midstream asks, and import it all.

Run as a program: `python other_system.py win32|darwin [arguments of midstream]`. What is installed is
imported first, as on the system we are on: it knows the others by itself. Prints each module that could
not be imported, as `name: error`; with arguments, does what midstream does with them.
"""

import functools
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
import time
import types

MISSING = {
    "win32": {
        os: (
            *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH"),
            *("WIFSIGNALED", "fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getuid"),
            *("killpg", "makedev", "mkfifo", "mknod", "pidfd_open", "pipe2", "set_blocking"),
            *("setsid", "ttyname", "wait"),
        ),
        select: ("poll", "epoll"),
        signal: ("SIGCONT", "SIGHUP", "SIGKILL", "SIGVTALRM", "pidfd_send_signal", "setitimer"),
        socket: ("AF_UNIX", "MSG_CMSG_CLOEXEC", "recv_fds", "send_fds"),
        time: ("CLOCK_BOOTTIME", "clock_gettime"),
    },
    "darwin": {
        os: ("O_PATH", "pidfd_open", "pipe2"),
        select: ("epoll",),
        signal: ("pidfd_send_signal",),
        socket: ("MSG_CMSG_CLOEXEC",),
        time: ("CLOCK_BOOTTIME",),
    },
}
UNIMPORTABLE = {
    "win32": (
        *("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"),
        "prompt_toolkit.input.vt100",
    ),
    "darwin": (),
}


def names() -> list[str]:
    """Return every module of midstream there is, without the scripts that users copy."""
    package = importlib.import_module("midstream")
    found = (each.name for each in pkgutil.walk_packages(package.__path__, "midstream."))
    return ["midstream", *(name for name in found if ".defaults." not in name)]


def become(system: str) -> None:
    # The loop we stay on makes its pair of sockets of a family that goes.
    socket.socketpair = functools.partial(socket.socketpair, socket.AF_UNIX)
    for module, attributes in MISSING[system].items():
        for name in attributes:
            if hasattr(module, name):
                delattr(module, name)
    for name in UNIMPORTABLE[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    if system == "win32":
        locks = types.ModuleType("msvcrt")
        vars(locks).update(LK_NBLCK=2, locking=lambda descriptor, mode, count: None)
        sys.modules["msvcrt"] = locks
        vars(os).update(O_BINARY=0, O_NOINHERIT=0)
        os.supports_dir_fd.clear()
    sys.platform = system


def main(system: str, *arguments: str) -> None:
    every = names()
    for name in every:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.split(".")[0] == "midstream"]:
        del sys.modules[name]
    become(system)
    for name in every:
        try:
            importlib.import_module(name)
        except (ImportError, AttributeError, OSError, TypeError) as error:
            print(f"{name}: {type(error).__name__}: {error}")
    if arguments:
        sys.argv = ["midstream", *arguments]
        sys.modules["midstream.__main__"].main()


if __name__ == "__main__":
    main(*sys.argv[1:])
