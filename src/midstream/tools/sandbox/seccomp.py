"""The filter of system calls, as the bytes the kernel loads.

A list of what is closed, not of what is open: developers' programs use most of the kernel, and what
namespaces and dropped capabilities already stop needs no second lock. Closed is what has broken out of
such boxes before (io_uring, keyrings, bpf, userfaultfd, rare network families, user namespaces) and what
reaches over the fence: a terminal's input queue, other processes' memory, files that run as their owner.
Calls newer than this table are closed too: nobody has looked at them.

Calls that programs do without when a kernel lacks them answer ENOSYS, as such a kernel does; the rest
EPERM. A call in a foreign convention (32 bit, x32) kills the process: its numbers mean other things.

Arguments are compared by their lower 32 bits, which is what the kernel looks at in all calls below.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

Instruction: TypeAlias = tuple[int, int, int, int]

_LOAD, _AND = 0x20, 0x54
_JEQ, _JGT, _JGE, _JSET = 0x15, 0x25, 0x35, 0x45
_RETURN = 0x06

ALLOW: Final = 0x7FFF_0000
KILL: Final = 0x8000_0000
_ERRNO = 0x0005_0000
EPERM: Final = _ERRNO | 1
ENOSYS: Final = _ERRNO | 38
EAFNOSUPPORT: Final = _ERRNO | 97

_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32 = 0x4000_0000
_NEWEST = 462
"""`mseal`, Linux 6.10. From 424 on all machines share their numbers."""

_NAMESPACES = 0x7E02_0000
_NEW_TIME = 0x80
_SET_ID_BITS = 0o6000
_CREATES = 0o20000100
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DGRAM = 1, 2
_TCP, _UDP = 6, 17
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PLAIN_PERSONALITIES = (0, 0x0004_0000, 0xFFFF_FFFF)


class Machine(msgspec.Struct, frozen=True):
    """A machine's number in the kernel's audit, and its calls by name."""

    audit: int
    calls: dict[str, int]


def _numbered(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


_SHARED = _numbered(
    "pidfd_getfd=438 process_madvise=440 open_tree=428 move_mount=429 fsopen=430 fsconfig=431 "
    "fsmount=432 fspick=433 mount_setattr=442 quotactl_fd=443 statmount=457 listmount=458 "
    "io_uring_setup=425 io_uring_enter=426 io_uring_register=427 clone3=435 openat2=437 "
    "memfd_secret=447 fchmodat2=452"
)
MACHINES: Final = {
    "x86_64": Machine(
        0xC000_003E,
        _SHARED
        | _numbered(
            "mount=165 umount2=166 pivot_root=155 chroot=161 swapon=167 swapoff=168 reboot=169 "
            "kexec_load=246 kexec_file_load=320 init_module=175 finit_module=313 delete_module=176 "
            "acct=163 quotactl=179 settimeofday=164 clock_settime=227 clock_adjtime=305 "
            "sethostname=170 setdomainname=171 iopl=172 ioperm=173 syslog=103 lookup_dcookie=212 "
            "vhangup=153 bpf=321 perf_event_open=298 userfaultfd=323 add_key=248 request_key=249 "
            "keyctl=250 ptrace=101 process_vm_readv=310 process_vm_writev=311 kcmp=312 "
            "open_by_handle_at=304 fanotify_init=300 migrate_pages=256 move_pages=279 unshare=272 "
            "setns=308 clone=56 personality=135 ioctl=16 socket=41 socketpair=53 chmod=90 fchmod=91 "
            "fchmodat=268 open=2 openat=257 creat=85 mknod=133 mknodat=259 modify_ldt=154 uselib=134 "
            "ustat=136 _sysctl=156 nfsservctl=180"
        ),
    ),
    "aarch64": Machine(
        0xC000_00B7,
        _SHARED
        | _numbered(
            "mount=40 umount2=39 pivot_root=41 chroot=51 swapon=224 swapoff=225 reboot=142 "
            "kexec_load=104 kexec_file_load=294 init_module=105 finit_module=273 delete_module=106 "
            "acct=89 quotactl=60 settimeofday=170 clock_settime=112 clock_adjtime=266 "
            "sethostname=161 setdomainname=162 syslog=116 lookup_dcookie=18 vhangup=58 bpf=280 "
            "perf_event_open=241 userfaultfd=282 add_key=217 request_key=218 keyctl=219 ptrace=117 "
            "process_vm_readv=270 process_vm_writev=271 kcmp=272 open_by_handle_at=265 "
            "fanotify_init=262 migrate_pages=238 move_pages=239 unshare=97 setns=268 clone=220 "
            "personality=92 ioctl=29 socket=198 socketpair=199 fchmod=52 fchmodat=53 openat=56 "
            "mknodat=33 nfsservctl=42"
        ),
    ),
}
"""The machines we have a filter for, by what `uname -m` says."""

_MISSING = (
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2", "keyctl"),
    *(
        "add_key",
        "request_key",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "open_tree",
        "move_mount",
    ),
    *("mount_setattr", "statmount", "listmount", "memfd_secret", "_sysctl", "uselib", "nfsservctl"),
)
_FORBIDDEN = (
    *("mount", "umount2", "pivot_root", "chroot", "swapon", "swapoff", "reboot", "kexec_load"),
    *("kexec_file_load", "init_module", "finit_module", "delete_module", "acct", "quotactl"),
    *("quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "sethostname"),
    *("setdomainname", "iopl", "ioperm", "syslog", "lookup_dcookie", "vhangup", "bpf"),
    *("perf_event_open", "userfaultfd", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
    *("pidfd_getfd", "process_madvise", "open_by_handle_at", "fanotify_init", "migrate_pages"),
    *("move_pages", "setns", "modify_ldt", "ustat"),
)
_MODE_AT = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
}


def filter_of(machine: str, *, unix: bool = True) -> bytes | None:
    """Return the filter for a machine as `uname -m` names it, None for one we have no table of.

    Without `unix` no socket of the Unix family can be made (pairs still can): where the network is the
    host's, and with it the host's abstract sockets, or where sockets of the host could be found.
    """
    known = MACHINES.get(machine)
    if known is None:
        return None
    return b"".join(struct.pack("<HBBI", *each) for each in _program(known, unix=unix))


def _program(machine: Machine, *, unix: bool) -> list[Instruction]:
    # The numbers of a foreign convention mean other calls, so it is looked at first. Jumps are relative:
    # over so many instructions where the test holds, over so many where it does not.
    program: list[Instruction] = [
        _load(_ARCH_AT),
        (_JEQ, 1, 0, machine.audit),
        _returned(KILL),
        _load(_NUMBER_AT),
    ]
    if machine is MACHINES["x86_64"]:
        program += [(_JGE, 0, 1, _X32), _returned(KILL)]
    program += [(_JGT, 0, 1, _NEWEST), _returned(ENOSYS)]
    for name, body in _closed(unix=unix):
        if name in machine.calls:
            # Each body returns, so that whatever comes behind it still has the number loaded.
            program += [(_JEQ, 0, len(body), machine.calls[name]), *body]
    return [*program, _returned(ALLOW)]


def _closed(*, unix: bool) -> Iterable[tuple[str, Sequence[Instruction]]]:
    """Yield calls with what becomes of them; each body ends in a return."""
    families = [_AF_UNIX, _AF_INET, _AF_INET6] if unix else [_AF_INET, _AF_INET6]
    yield "clone", _unless_set(0, _NAMESPACES)
    yield "unshare", _unless_set(0, _NAMESPACES | _NEW_TIME)
    yield "socket", _socket(families)
    yield "socketpair", _only(0, [_AF_UNIX], EAFNOSUPPORT)
    yield "ioctl", _only(1, [_TIOCSTI, _TIOCLINUX], ALLOW, action=EPERM)
    yield "personality", _only(0, _PLAIN_PERSONALITIES, EPERM)
    yield "open", _unless_created_set_id(flags=1, mode=2)
    yield "openat", _unless_created_set_id(flags=2, mode=3)
    for name, argument in _MODE_AT.items():
        yield name, _unless_set(argument, _SET_ID_BITS)
    for name in _MISSING:
        yield name, [_returned(ENOSYS)]
    for name in _FORBIDDEN:
        yield name, [_returned(EPERM)]


def _load(place: int) -> Instruction:
    return (_LOAD, 0, 0, place)


def _argument(index: int) -> Instruction:
    return _load(_ARGUMENTS_AT + 8 * index)


def _returned(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _unless_set(argument: int, bits: int) -> list[Instruction]:
    return [_argument(argument), (_JSET, 0, 1, bits), _returned(EPERM), _returned(ALLOW)]


def _only(
    argument: int, values: Sequence[int], otherwise: int, *, action: int = ALLOW
) -> list[Instruction]:
    body = [_argument(argument)]
    for value in values:
        body += [(_JEQ, 0, 1, value), _returned(action)]
    return [*body, _returned(otherwise)]


def _unless_created_set_id(*, flags: int, mode: int) -> list[Instruction]:
    # Without one of the flags the mode is whatever was left in the register.
    return [
        _argument(flags),
        (_JSET, 1, 0, _CREATES),
        _returned(ALLOW),
        *_unless_set(mode, _SET_ID_BITS),
    ]


def _socket(families: Sequence[int]) -> list[Instruction]:
    """Streams and datagrams of the usual families; of netlink only what lists interfaces."""
    plain_protocol = [(_JEQ, 0, 1, value) for value in (0, _TCP, _UDP)]
    protocol = [_argument(2)]
    for test in plain_protocol:
        protocol += [test, _returned(ALLOW)]
    protocol += [_returned(EAFNOSUPPORT)]
    internet = [
        _argument(1),
        # Above the low bits are flags such as SOCK_CLOEXEC. Raw sockets and packets are none of the two.
        (_AND, 0, 0, 0xF),
        (_JEQ, 2, 0, _SOCK_STREAM),
        (_JEQ, 1, 0, _SOCK_DGRAM),
        _returned(EAFNOSUPPORT),
        *protocol,
    ]
    netlink = _only(2, [0], EAFNOSUPPORT)
    body = [_argument(0)]
    if _AF_UNIX in families:
        body += [(_JEQ, 0, 1, _AF_UNIX), _returned(ALLOW)]
    # Protocol 0 of netlink lists interfaces, which resolvers do; its others reach into the kernel.
    body += [(_JEQ, 0, len(netlink), _AF_NETLINK), *netlink]
    body += [(_JEQ, 1, 0, _AF_INET), (_JEQ, 0, len(internet), _AF_INET6), *internet]
    return [*body, _returned(EAFNOSUPPORT)]
