"""The attacks: Python that runs inside, in escapes.txt. What must not work says BREACH.

There `=== ` begins a group, and `--- ` an attack, with what it tries in one line.
"""

from pathlib import Path

PRELUDE = r'''
import ctypes, errno, json, mmap, os, platform, signal, socket, stat, struct, sys, time
from pathlib import Path
G = json.loads(sys.argv[1])
OUT, HOME, SECRET = G["folder"] + "/outside", G["folder"] + "/home", G["secret"]
X86 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)
def breach(*words):
    print("BREACH", *words)
def no(work, *arguments, **more):
    """Do what the system must refuse."""
    try:
        result = work(*arguments, **more)
    except OSError:
        return None
    breach(getattr(work, "__name__", "it"), arguments, result)
    return result
def sees(path):
    """Read what must not be readable, or not hold the secret."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return
    if SECRET.encode() in data:
        breach("read", path)
def call(x86, arm, *arguments):
    """Make a system call that must be closed."""
    ctypes.set_errno(0)
    words = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    result = LIBC.syscall(ctypes.c_long(x86 if X86 else arm), *words)
    number = ctypes.get_errno()
    if result != -1 or number not in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT):
        breach("system call", x86, "gave", result, errno.errorcode.get(number, number))
def dies(work):
    """Do in a child what must kill it."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        breach("a foreign call came back")
def beyond(resource, which):
    """Raise a limit that must be there and stay."""
    if resource.getrlimit(which)[1] == resource.RLIM_INFINITY:
        breach("no limit", which)
    try:
        resource.setrlimit(which, (resource.RLIM_INFINITY,) * 2)
    except (OSError, ValueError):
        return
    breach("raised", which)
def machine_code(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
'''


def attacks(group: str) -> list[tuple[str, str]]:
    """Return the attacks of a group: what each tries, and its code."""
    text = Path(__file__).with_name("escapes.txt").read_text("utf-8")
    groups = dict(part.split("\n", 1) for part in text.split("=== ")[1:])
    found = [part.split("\n", 1) for part in groups[group].split("--- ")[1:]]
    return [(what, code) for what, code in found]
