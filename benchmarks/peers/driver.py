"""Does one thing with one library, in a process of its own: `python -m benchmarks.peers.driver ...`.

The standard library only: each library has its own environment. Prints in one line what the function
returned or raised.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

PIECES = ("First a ", "cloud, ", "then rain")
HELD = "held"
"""While this file is in its folder, the first process to call the tool stays in it."""


def effects(folder: Path) -> list[str]:
    """Return what the tool did, a line each time."""
    path = folder / "effects.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def do(library: Any, what: str, folder: Path, words: list[str]) -> Any:
    """Return what a library's function returns; `halt_...` halts it in the middle."""
    reached = asyncio.Event()
    replies = iter(("shorter", "good"))
    is_first = not effects(folder)

    async def speak(role: str, prompt: str) -> AsyncIterator[str]:
        for number, piece in enumerate(PIECES if role == "writer" else (next(replies),)):
            if number == 2 and what == "halt_loop":
                reached.set()
                await asyncio.Event().wait()
            yield piece
            await asyncio.sleep(0)

    async def tool(words: str) -> str:
        """Write a line."""
        with (folder / "effects.txt").open("a", encoding="utf-8") as file:
            file.write(f"{words}\n")
        reached.set()
        while is_first and (folder / HELD).exists():  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.01)
        return f"wrote {words}"

    async def halted(work: Coroutine[Any, Any, Any]) -> None:
        working = asyncio.create_task(work)
        await reached.wait()
        if hasattr(library, "halt"):
            await library.halt(folder)
        working.cancel()
        await asyncio.wait([working])

    match what:
        case "loop":
            return await library.loop(folder, speak)
        case "halt_loop":
            return await halted(library.loop(folder, speak))
        case "halt_act":
            return await halted(library.act(folder, tool))
        case "answer":
            return await library.answer(folder, *words, tool)
        case _:
            return await getattr(library, what)(folder, tool)


def main() -> None:
    """Do what is asked for: LIBRARY FUNCTION FOLDER [WORDS ...]."""
    logging.disable()
    name, what, folder, *words = sys.argv[1:]
    library = import_module(f"benchmarks.peers.{name}")
    try:
        found = str(asyncio.run(do(library, what, Path(folder), words)))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(" ".join(found.split()))


if __name__ == "__main__":
    main()
