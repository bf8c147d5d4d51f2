"""The filter, worked through as the kernel does, for each machine."""

import struct

import pytest

from midstream.tools.sandbox.seccomp import (
    ALLOW,
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    KILL,
    MACHINES,
    filter_of,
)


def verdict(
    machine: str, name: str | int, *arguments: int, audit: int | None = None, unix: bool = True
) -> int:
    """Return what the filter makes of a call."""
    known = MACHINES[machine]
    number = known.calls[name] if isinstance(name, str) else name
    words = [each & 0xFFFF_FFFF_FFFF_FFFF for each in (*arguments, *[0] * 6)][:6]
    data = struct.pack("<IIQ6Q", number, known.audit if audit is None else audit, 0, *words)
    program = filter_of(machine, unix=unix)
    assert program is not None
    steps = list(struct.iter_unpack("<HBBI", program))
    at, register = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (register,) = struct.unpack_from("<I", data, value)
            case 0x54:
                register &= value
            case 0x15:
                at += yes if register == value else no
            case 0x25:
                at += yes if register > value else no
            case 0x35:
                at += yes if register >= value else no
            case 0x45:
                at += yes if register & value else no
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(code)


ON_BOTH = [
    (EPERM, "mount", ()),
    (EPERM, "ptrace", ()),
    (EPERM, "bpf", ()),
    (EPERM, "open_by_handle_at", ()),
    (ENOSYS, "io_uring_setup", ()),
    (ENOSYS, "keyctl", ()),
    (ENOSYS, "clone3", ()),
    (ENOSYS, "openat2", ()),
    (ENOSYS, "open_tree", ()),
    (ENOSYS, 463, ()),
    (ENOSYS, 4000, ()),
    (EPERM, "clone", (0x1000_0011,)),
    (ALLOW, "clone", (0x0000_0011,)),
    (ALLOW, "clone", (0x003D_0F00,)),
    (EPERM, "unshare", (0x80,)),
    (ALLOW, "unshare", (0x200,)),
    (ALLOW, "socket", (1, 1, 0)),
    (ALLOW, "socket", (2, 0x80001, 6)),
    (ALLOW, "socket", (10, 2, 17)),
    (EAFNOSUPPORT, "socket", (2, 3, 1)),
    (EAFNOSUPPORT, "socket", (2, 1, 132)),
    (EAFNOSUPPORT, "socket", (2, 5, 0)),
    (ALLOW, "socket", (16, 3, 0)),
    (EAFNOSUPPORT, "socket", (16, 3, 12)),
    (EAFNOSUPPORT, "socket", (17, 3, 0)),
    (EAFNOSUPPORT, "socket", (38, 5, 0)),
    (EAFNOSUPPORT, "socket", (40, 1, 0)),
    (ALLOW, "socketpair", (1, 1, 0)),
    (EAFNOSUPPORT, "socketpair", (30, 1, 0)),
    (EPERM, "ioctl", (0, 0x5412)),
    (EPERM, "ioctl", (0, 0x7_0000_5412)),
    (EPERM, "ioctl", (0, 0x541C)),
    (ALLOW, "ioctl", (0, 0x5413)),
    (ALLOW, "personality", (0xFFFF_FFFF,)),
    (EPERM, "personality", (0x0040_0000,)),
    (EPERM, "fchmod", (3, 0o4755)),
    (EPERM, "fchmodat", (3, 0, 0o2755)),
    (EPERM, "fchmodat2", (3, 0, 0o6755)),
    (ALLOW, "fchmodat", (3, 0, 0o1777)),
    (EPERM, "openat", (3, 0, 0o101, 0o4755)),
    (EPERM, "openat", (3, 0, 0o20200002, 0o4755)),
    (ALLOW, "openat", (3, 0, 0o2, 0o4755)),
    (ALLOW, "openat", (3, 0, 0o200000, 0o4755)),
    (ALLOW, "openat", (3, 0, 0o101, 0o644)),
    (EPERM, "mknodat", (3, 0, 0o104755)),
]


@pytest.mark.parametrize("machine", sorted(MACHINES))
@pytest.mark.parametrize(("action", "name", "arguments"), ON_BOTH)
def test_a_call_is_open_or_closed(
    machine: str, action: int, name: str | int, arguments: tuple[int, ...]
) -> None:
    assert verdict(machine, name, *arguments) == action


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_plain_calls_are_open(machine: str) -> None:
    closed = set(MACHINES[machine].calls.values())
    opened = [number for number in range(423) if number not in closed]

    assert {verdict(machine, number) for number in opened} == {ALLOW}


@pytest.mark.parametrize("machine", sorted(MACHINES))
@pytest.mark.parametrize("audit", [0x4000_0003, 0x4000_0028, 0, 0xC000_00B7, 0xC000_003E])
def test_a_call_of_another_machine_kills(machine: str, audit: int) -> None:
    own = MACHINES[machine].audit

    assert verdict(machine, 0, audit=audit) == (ALLOW if audit == own else KILL)


@pytest.mark.parametrize("number", [0x4000_0000, 0x4000_0027, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_a_call_of_the_x32_kind_kills(number: int) -> None:
    assert verdict("x86_64", number) == KILL


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_with_the_hosts_network_there_are_no_sockets_of_the_unix_family(machine: str) -> None:
    assert verdict(machine, "socket", 1, 1, 0, unix=False) == EAFNOSUPPORT
    assert verdict(machine, "socketpair", 1, 1, 0, unix=False) == ALLOW
    assert verdict(machine, "socket", 2, 1, 0, unix=False) == ALLOW


def test_a_machine_we_have_no_table_of_gets_no_filter() -> None:
    assert filter_of("riscv64") is None


def test_the_filter_is_short_enough_for_the_kernel() -> None:
    for machine in MACHINES:
        assert len(filter_of(machine) or b"") // 8 < 4096
