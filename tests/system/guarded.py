"""A process with a watchdog: it starts a tool, tells of one beat, and then does what it is told to.

What is to die is no worker: its watchdog comes with the tool.

python guarded.py WITHIN_S stop | die | leave | forget FOLDER

It leaves the will that the folder be made, and one that it has withdrawn.
"""

import asyncio
import os
import signal
import sys

from midstream.system.guard import own_guard
from midstream.system.supervisor import Child


async def main(within_s: float, then: str, folder: str) -> None:
    """Do it. The ids of the tool and of its child, which has left its session, are printed."""
    guard = own_guard()
    if then not in ("die", "forget"):
        await guard.watch(lambda words: print(words, file=sys.stderr))
    guard.bequeath("made", ("os", "mkdir", folder))
    guard.bequeath("withdrawn", ("os", "mkdir", folder + " withdrawn"))
    guard.withdraw("withdrawn")
    script = "setsid sleep 1000 & echo $! $$; exec sleep 1000"
    tool = Child(["/bin/sh", "-c", script], folder=None, environment=os.environ)
    assert tool.process.stdout is not None
    print(tool.process.stdout.readline().decode().strip(), flush=True)
    if then == "forget":
        tool.process.stdout.close()
        tool.process.returncode = 0  # nor does Python say what was forgotten
        return
    guard.beat(asyncio.get_running_loop().time(), within_s)
    if then == "leave":
        guard.close()
        tool.end()
        return
    os.kill(os.getpid(), signal.SIGSTOP if then == "stop" else signal.SIGKILL)
    await asyncio.sleep(1000)


asyncio.run(main(float(sys.argv[1]), sys.argv[2], sys.argv[3]))
