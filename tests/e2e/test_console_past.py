"""What a console knows of the files its runs wrote: `/diff` completes them."""

from pathlib import Path

from deadline import until
from scene_kit import Scene, scene

from midstream.language.names import Json
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTool, FakeTools, call

STAT = ("--stat", "only how many lines")


class Writing(FakeTools):
    """A tool that is about to write the file it is given, and writes nothing."""

    def __init__(self) -> None:
        super().__init__(FakeTool(name="write"))

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Say so before it would be written."""
        await context.changing(Path(str(arguments["path"])), None, b"x")
        return await super().call(name, arguments, context)


async def written(made: Scene, *paths: Path) -> None:
    """Have the chat write files."""
    await made.type("write them")
    active = made.session.active()
    assert active is not None
    await active.settled()
    assert len(made.tools.calls) == len(paths)


async def test_diff_completes_the_files_the_run_wrote_the_last_first(tmp_path: Path) -> None:
    paths = (tmp_path / "src" / "a.py", tmp_path / "b.py", tmp_path / "src" / "a.py")
    script = [call("write", path=str(path)) for path in paths]
    async with scene(tmp_path, *script, "Done.", tools=Writing()) as made:
        assert made.console.completions("/diff ") == (STAT,)
        await written(made, *paths)

        assert made.console.completions("/diff ") == (("src/a.py", ""), ("b.py", ""), STAT)
        assert made.console.completions("/diff s") == (("src/a.py", ""),)
        await made.type("/clear")
        assert made.console.completions("/diff ") == (STAT,)


async def test_what_a_run_of_an_earlier_console_wrote_is_known_after_the_first_look(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    paths = (tmp_path / "a.py", tmp_path / "\x1b[2J.py")
    script = [call("write", path=str(path)) for path in paths]
    async with scene(tmp_path, *script, "Done.", tools=Writing(), store=store.beside()) as made:
        await written(made, *paths)

    async with scene(tmp_path, tools=Writing(), store=store.beside()) as later:
        await later.type("/sessions 1")

        async def is_known() -> bool:
            return later.console.completions("/diff ") != (STAT,)

        await until(is_known)
        assert later.console.completions("/diff ") == (("a.py", ""), STAT)


async def test_a_console_may_be_left_in_the_middle_of_the_look(tmp_path: Path) -> None:
    store = MemoryStore()
    script = call("write", path=str(tmp_path / "a.py"))
    async with scene(tmp_path, script, "Done.", tools=Writing(), store=store.beside()) as made:
        await written(made, tmp_path / "a.py")
    async with scene(tmp_path, tools=Writing(), store=store.beside()) as later:
        await later.type("/sessions 1")
        later.console.completions("/diff ")
