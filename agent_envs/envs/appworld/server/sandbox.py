"""What a world's process may do once agent code runs in it. Standard library only, Linux on x86_64 and aarch64.

The layers, each applied if the kernel offers it, none needs privileges:

- resource limits: memory, size of a file, open files, no core dumps;
- own user, network and IPC namespaces: the only socket left is the listening one that was made before;
- the user ``nobody`` where the server runs as root and the interpreter can be read by everyone, and no capabilities;
- Landlock: reading is limited to the interpreter, the shared libraries and the task data, writing to one folder;
- seccomp: no new process or program, no new socket, no signal to another process, no tracing, no kernel interfaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

NOBODY = 65534
LAYERS = ("limits", "namespaces", "user", "landlock", "seccomp")
"""Names in the list that :func:`confine` returns."""

_MAX_FILE_BYTES = 64 << 20
_MAX_OPEN_FILES = 512
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC, _CLONE_THREAD = 0x10000000, 0x40000000, 0x08000000, 0x00010000

_libc = ctypes.CDLL(None, use_errno=True)


def confine(*, readable: Iterable[str], writable: str, memory_mb: int) -> list[str]:
    """Confine this process, for good. It must have one thread only.

    Args:
        readable: Files and folders, besides the interpreter's own, that may be read.
        writable: The one folder that may be written.
        memory_mb: Address space beyond what the process has now, in MiB.

    Returns:
        The layers of :data:`LAYERS` that are in force, with details such as ``"landlock 7"``.
    """
    readable = list(readable)
    _limit(memory_mb)
    layers = ["limits"]
    user = _leave_root(readable, writable)
    layers += _own_namespaces()
    layers += user
    _drop_capabilities()
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        layers += _landlock([*_system_paths(), *readable], writable)
        layers += _seccomp()
    return layers


def die_with_parent(signal_number: int) -> None:
    """Let the kernel send this process a signal when its parent ends. A change of user undoes it: call it last."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def _limit(memory_mb: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    total = pages * resource.getpagesize() + (memory_mb << 20)
    for which, value in (
        (resource.RLIMIT_AS, total),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


# ---------------------------------------------------------------------- user, namespaces, capabilities


def _leave_root(readable: list[str], writable: str) -> list[str]:
    """Become ``nobody`` if this is root and others can read the interpreter and the task data."""
    if os.geteuid() != 0 or not all(map(_open_to_all, (sys.prefix, sys.base_prefix, writable, *readable))):
        return []
    os.chown(writable, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    return ["user nobody"]


def _open_to_all(path: str) -> bool:
    place = Path(path).resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))


def _own_namespaces() -> list[str]:
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        with contextlib.suppress(OSError):  # unmapped ids read as nobody, which serves as well
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1")
        return ["namespaces user net ipc"]
    if _libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) == 0:  # root without user namespaces
        return ["namespaces net ipc"]
    return []


def _drop_capabilities() -> None:
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
    _libc.capset(header, struct.pack("6I", *[0] * 6))


# ---------------------------------------------------------------------- Landlock

_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
# Bits of the file rights each ABI version added: 1 has 13, 2 refer, 3 truncate, 5 ioctl on devices.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_READ = _FS_READ_FILE | _FS_READ_DIR
_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_RULE_PATH = 1


def _system_paths() -> Iterator[str]:
    yield from {sys.prefix, sys.base_prefix, sys.exec_prefix, *_library_folders()}
    yield from ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero", "/etc/localtime", "/etc/ld.so.cache")
    yield from ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/proc/self")


def _library_folders() -> set[str]:
    """Folders of the shared libraries that are loaded already; more of them may be loaded later."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    files = {line.split(maxsplit=5)[5] for line in lines if line.count(" /")}
    return {str(Path(file).parent) for file in files if ".so" in file}


def _landlock(readable: Iterable[str], writable: str) -> list[str]:
    abi = _libc.syscall(_SYS_CREATE, None, 0, 1)
    if abi < 1:
        return []
    rights = (1 << _FS_BITS[min(abi, 5)]) - 1
    # TCP bind and connect; abstract sockets and signals of other processes.
    fields = [rights] + [0b11] * (abi >= 4) + [0b11] * (abi >= 6)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _libc.syscall(_SYS_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return []
    for path in readable:
        _allow(ruleset, path, _READ & rights)
    _allow(ruleset, "/dev/null", _READ | _FS_WRITE_FILE)
    _allow(ruleset, writable, rights & ~_FS_EXECUTE)
    done = _libc.syscall(_SYS_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return [f"landlock {abi}"] if done else []


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):
        access &= _FS_READ_FILE | _FS_WRITE_FILE
    _libc.syscall(_SYS_ADD, ruleset, _RULE_PATH, struct.pack("=Qi", access, handle), 0)
    os.close(handle)


# ---------------------------------------------------------------------- seccomp

# System calls that are refused: numbers of x86_64 and of aarch64 (None: it does not exist there).
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def seccomp_program(machine: str) -> bytes:
    """Return the filter for ``platform.machine()``: an array of ``struct sock_filter``.

    Raises:
        KeyError: For a machine that it is not written for.
    """
    column, architecture = _ARCHITECTURES[machine]
    refused = sorted(number for pair in _REFUSED.values() if (number := pair[column]) is not None)
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_JUMP_AT_LEAST, 0, 1, 0x40000000),  # the x32 numbers of x86_64
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 1, _CLONE3[column]),  # its flags lie in memory: libraries fall back to clone
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, 16),  # low half of the first argument
        (_JUMP_IF_SET, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    for number in refused:
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _seccomp() -> list[str]:
    if platform.machine() not in _ARCHITECTURES:
        return []
    code = seccomp_program(platform.machine())
    program = _Program(len(code) // 8, code)
    done = _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) == 0
    return ["seccomp"] if done else []
