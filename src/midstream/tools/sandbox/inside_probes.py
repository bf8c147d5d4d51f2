"""What is tried from inside the sandbox at start-up. Run there, by itself: it imports nothing of ours.

It gets a JSON object as its argument and prints a JSON list of [name, held, why]. Each probe tries to do
what must not be possible, and says what came of it; none does harm where it is possible. `tried` names
those that say something on this system, None where all do.
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Given = dict[str, Any]
IS_X86 = platform.machine() == "x86_64"
NEW_USER = 0x1000_0000


class Possible(Exception):
    """What must not be possible was."""


def syscall(number: int, *arguments: int) -> int:
    """Make a system call of Linux by its number; `ctypes.get_errno` says what was wrong."""
    made = ctypes.CDLL(None, use_errno=True).syscall
    return int(made(*(ctypes.c_long(each) for each in (number, *arguments))))


def call(x86: int, arm: int, *arguments: int) -> None:
    """Make a system call that must fail as one that is closed; else `Possible`."""
    ctypes.set_errno(0)
    result = syscall(x86 if IS_X86 else arm, *arguments)
    number = ctypes.get_errno()
    if result != -1 or number not in (errno.EPERM, errno.ENOSYS):
        raise Possible(f"the kernel answered {result}, {errno.errorcode.get(number, number)}")


def refused(what: Callable[[], object], saying: str) -> None:
    """Do what must be refused by the system."""
    try:
        what()
    except OSError:
        return
    raise Possible(saying)


def _opened(path: str, flags: int = os.O_RDONLY) -> None:
    os.close(os.open(path, flags))


def _made(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _reads_outside(given: Given) -> None:
    refused(partial(_opened, given["canary"]), "a file outside was opened")
    refused(partial(_opened, "/etc/shadow"), "/etc/shadow was opened")


def _writes_outside(given: Given) -> None:
    place = os.path.dirname(given["canary"])
    for folder in (place, "/usr", "/etc", "/", "/usr/local/bin"):
        refused(partial(_made, f"{folder}/midstream-probe"), f"{folder} was written to")


def _writes_locked(given: Given) -> None:
    for folder in (".git", ".midstream"):
        refused(partial(_made, f"{folder}/planted"), f"{folder} was written to")
        refused(partial(os.rename, folder, f"{folder}-moved"), f"{folder} was moved away")
        refused(partial(os.mkdir, folder), f"{folder} could be made")


def _reaches_host_tcp(given: Given) -> None:
    def connect() -> None:
        with socket.create_connection(("127.0.0.1", given["port"]), timeout=1):
            pass

    refused(connect, "a listener on the host's loopback answered")


def _reaches_host_abstract(given: Given) -> None:
    if sys.platform == "win32":
        raise OSError("no probe of this system")

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as ours:
            ours.settimeout(1)
            ours.connect("\0" + given["abstract"])

    refused(connect, "an abstract socket of the host answered")


def _opens_rare_sockets(given: Given) -> None:
    # Packets, the kernel's ciphers, virtual machines, Bluetooth, XDP: each has been a way out before.
    for family in (17, 38, 40, 31, 44):
        refused(
            partial(socket.socket, family, socket.SOCK_DGRAM),
            f"a socket of family {family} was opened",
        )
    refused(lambda: socket.socket(2, socket.SOCK_RAW, 1).close(), "a raw socket was opened")


def _makes_user_namespace(given: Given) -> None:
    # In a namespace of its own a process has every capability, and the kernel's rarest code within reach.
    call(272, 97, NEW_USER)  # unshare
    call(56, 220, NEW_USER | 17, 0, 0, 0, 0)  # clone, 17: SIGCHLD at its end
    if IS_X86:
        call(435, 435, 0, 0)  # clone3, whose flags lie in memory where no filter can look


def _traces(given: Given) -> None:
    call(101, 117, 16, 1, 0, 0)  # ptrace, 16: attach
    call(310, 270, 1, 0, 0, 0, 0, 0)  # process_vm_readv


def _mounts(given: Given) -> None:
    call(165, 40, 0, 0, 0, 0, 0)  # mount
    call(428, 428, -100, 0, 0)  # open_tree
    call(161, 51, 0)  # chroot


def _calls_rare(given: Given) -> None:
    # io_uring_setup, keyctl, add_key, bpf, perf_event_open, userfaultfd.
    for x86, arm in ((425, 425), (250, 219), (248, 217), (321, 280), (298, 241), (323, 282)):
        call(x86, arm, 0, 0, 0, 0, 0)
    call(304, 265, 0, 0, 0)  # open_by_handle_at, which asks for no path
    call(470, 470, 0, 0)  # one that is newer than our table


def _types_into_terminal(given: Given) -> None:
    # ioctl TIOCSTI: what is put into a terminal's input runs in the shell of whoever sits there.
    call(16, 29, 0, 0x5412, 0)


def _calls_foreign(given: Given) -> None:
    if not IS_X86 or sys.platform == "win32":
        return
    # Bit 30 makes a number one of x32, which a filter that compares numbers alone does not know.
    child = os.fork()
    if child == 0:
        syscall(0x4000_0000 + 39)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        raise Possible("a call of the x32 kind came back")


def _is_capable(given: Given) -> None:
    with open("/proc/self/status", encoding="ascii") as file:
        words = dict(line.split(":", 1) for line in file if ":" in line)
    for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh"):
        if int(words[name], 16):
            raise Possible(f"{name} is {words[name].strip()}")
    if words["NoNewPrivs"].strip() != "1" or words["Seccomp"].strip() != "2":
        raise Possible("new privileges or all system calls are open")


def _sees_environment(given: Given) -> None:
    secret = given["secret"]
    if any(secret in value for value in os.environ.values()):
        raise Possible("a variable of ours was handed on")
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if secret.encode() in file.read():
                    raise Possible(f"a variable of ours is in process {name}")


def _sees_processes(given: Given) -> None:
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    # bubblewrap's first process and us, with some room. On the host there are more, and ours is a late one.
    if len(pids) > 4 or os.getpid() > 64:
        raise Possible(f"{len(pids)} processes are to be seen")


def _sets_kernel(given: Given) -> None:
    for name in ("kernel/core_pattern", "kernel/modprobe", "vm/drop_caches", "fs/suid_dumpable"):
        refused(
            partial(_opened, f"/proc/sys/{name}", os.O_WRONLY),
            f"/proc/sys/{name} can be written",
        )
    refused(partial(_opened, "/proc/sysrq-trigger", os.O_WRONLY), "sysrq can be written")
    refused(partial(_opened, "/proc/self/uid_map", os.O_WRONLY), "/proc can be written")


def _changes_devices(given: Given) -> None:
    about = os.stat("/dev/null")
    if [about.st_dev, about.st_ino] == given["null"]:
        refused(lambda: os.chmod("/dev/null", 0o666), "the host's /dev/null could be changed")  # nosec B103  # a probe: it must fail
    if os.path.exists("/dev/sda") or os.path.exists("/dev/vda") or os.path.exists("/dev/mem"):
        raise Possible("a disk or the memory is there")


def _makes_set_id(given: Given) -> None:
    with open("probe-set-id", "wb"):
        pass
    try:
        refused(
            lambda: os.chmod("probe-set-id", 0o4755),  # nosec B103  # a probe: it must fail
            "a file could be made to run as its owner",
        )
    finally:
        os.unlink("probe-set-id")


def _inherits(given: Given) -> None:
    # One of them is the listing's own.
    extra = [name for name in os.listdir("/dev/fd") if int(name) > 2]
    if len(extra) > 1:
        raise Possible(f"descriptors {', '.join(extra)} were inherited")


def _forks_on(given: Given) -> None:
    if sys.platform == "win32":
        raise OSError("no probe of this system")
    most = given["processes"]
    children: list[int] = []
    try:
        for _ in range(most + 8):
            child = os.fork()
            if child == 0:
                # Stopped (19: SIGSTOP) it costs nothing, and cannot end before it is counted.
                os.kill(os.getpid(), 19)
                os._exit(0)
            children.append(child)
    except OSError:
        return
    finally:
        for child in children:
            os.kill(child, 9)
        for child in children:
            os.waitpid(child, 0)
    raise Possible(f"more than {most} processes could be started")


PROBES: dict[str, Callable[[Given], None]] = {
    "cannot read outside": _reads_outside,
    "cannot write outside": _writes_outside,
    "cannot write .git and .midstream": _writes_locked,
    "no TCP to the host": _reaches_host_tcp,
    "no abstract sockets of the host": _reaches_host_abstract,
    "no rare network families": _opens_rare_sockets,
    "no new user namespace": _makes_user_namespace,
    "no look into other processes": _traces,
    "no mounts": _mounts,
    "no rare system calls": _calls_rare,
    "no typing into the terminal": _types_into_terminal,
    "no foreign system calls": _calls_foreign,
    "no capabilities": _is_capable,
    "clean environment": _sees_environment,
    "processes of its own": _sees_processes,
    "kernel settings are read-only": _sets_kernel,
    "devices cannot be changed": _changes_devices,
    "no set-user-id files": _makes_set_id,
    "no inherited files": _inherits,
    "processes are limited": _forks_on,
}


def outcomes(given: Given) -> Iterator[tuple[str, bool, str]]:
    """Yield what came of each probe. One that breaks in any other way has not held."""
    for name, probe in PROBES.items():
        if given["tried"] is not None and name not in given["tried"]:
            continue
        try:
            probe(given)
        except Possible as possible:
            yield name, False, str(possible)
        except Exception as error:
            yield name, False, f"could not be tried: {type(error).__name__}: {error}"
        else:
            yield name, True, ""


def stay() -> None:
    """Leave a process behind that has left its session, parent and environment, and holds stdout."""
    if sys.platform == "win32":
        raise OSError("no probe of this system")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "600"], {})  # nosec B606  # a probe
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    what = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(list(outcomes(what))) + "\n")
    sys.stdout.flush()
    if what["tried"] is None:
        stay()
