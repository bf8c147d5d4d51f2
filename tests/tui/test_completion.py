"""What completes a word: names before files, each said to be what it is."""

import asyncio
from collections.abc import AsyncGenerator

from deadline import DEADLINE_S
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.buffer import CompletionState
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import to_plain_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from midstream.tui.completion import Words
from midstream.tui.editor import Editor

Pairs = tuple[tuple[str, str], ...]


def names(before: str) -> Pairs:
    return (("@tests", "to one: interrupts tests"),) if before == "@te" else ()


async def files(mention: str) -> AsyncGenerator[Pairs, None]:
    yield (("@tests/", "folder"),)
    yield (("@tests/", "folder"), ('@"two tests.py"', "file"))


async def completions(before: str, *, is_asked: bool = False) -> list[tuple[str, int, str]]:
    words = Words(names, files)
    event = CompleteEvent(completion_requested=is_asked, text_inserted=not is_asked)
    async with asyncio.timeout(DEADLINE_S):
        return [
            (found.text, found.start_position, to_plain_text(found.display_meta))
            async for found in words.get_completions_async(Document(before), event)
        ]


async def test_at_the_beginning_names_come_first_and_files_once() -> None:
    assert await completions("@te") == [
        ("@tests", -3, "to one: interrupts tests"),
        ("@tests/", -3, "folder"),
        ('@"two tests.py"', -3, "file"),
    ]


async def test_what_a_command_had_to_ask_for_comes_after_what_it_knew() -> None:
    asked: list[str] = []

    def known(before: str) -> Pairs:
        return (("openai:gpt-5", "base"),)

    async def learned(line: str) -> AsyncGenerator[Pairs, None]:
        asked.append(line)
        yield (("openai:gpt-5", "base"), ("ollama:phi4", ""))

    words = Words(known, learned)
    document = Document("/model smart o")
    async with asyncio.timeout(DEADLINE_S):
        found = words.get_completions_async(document, CompleteEvent(text_inserted=True))
        given = [(each.text, each.start_position) async for each in found]

    assert given == [("openai:gpt-5", -1), ("ollama:phi4", -1)]
    assert asked == ["/model smart o"]


async def test_tab_takes_a_name_before_the_next_key_does_anything() -> None:
    asked: list[str] = []

    async def slow(mention: str) -> AsyncGenerator[Pairs, None]:
        asked.append(mention)
        await asyncio.sleep(0)
        yield (("@tests/", "folder"),)

    editor = Editor(InMemoryHistory(), on_screen=frozenset, completions=names, mentions=slow)
    with create_pipe_input() as piped, create_app_session(input=piped, output=DummyOutput()):
        app: Application[None] = Application(layout=Layout(Window(BufferControl(editor.buffer))))

        def typed() -> None:
            editor.buffer.insert_text("@te")
            editor.complete()
            editor.buffer.insert_text(" shorter")
            seen.append(editor.buffer.text)
            app.exit()

        seen: list[str] = []
        async with asyncio.timeout(DEADLINE_S):
            await app.run_async(pre_run=typed)

    assert seen == ["@tests shorter"]
    assert asked == []


async def test_a_second_tab_goes_on_to_the_files() -> None:
    editor = Editor(InMemoryHistory(), on_screen=frozenset, completions=names, mentions=files)
    buffer = editor.buffer
    with create_pipe_input() as piped, create_app_session(input=piped, output=DummyOutput()):
        app: Application[None] = Application(layout=Layout(Window(BufferControl(buffer))))
        seen: list[str] = []

        def typed() -> None:
            buffer.insert_text("@te")
            editor.complete()

        def found_more(_: object) -> None:
            state = buffer.complete_state
            if state is not None and len(state.completions) == 3 and not seen:
                editor.complete()
                seen.append(buffer.text)
                app.exit()

        buffer.on_completions_changed += found_more
        async with asyncio.timeout(DEADLINE_S):
            await app.run_async(pre_run=typed)

    assert seen == ["@tests/"]


async def test_within_a_line_there_are_only_files() -> None:
    assert await completions("see @te") == [
        ("@tests/", -3, "folder"),
        ('@"two tests.py"', -3, "file"),
    ]


async def test_a_path_with_blanks_is_gone_on_with_in_its_quotes() -> None:
    assert ('@"two tests.py"', -7, "file") in await completions('see @"two t')


async def test_a_shell_command_gets_paths_as_a_shell_reads_them_when_asked() -> None:
    assert await completions("!cat te") == []
    assert await completions("!cat te", is_asked=True) == [
        ("tests/", -2, "folder"),
        ("'two tests.py'", -2, "file"),
    ]
    assert await completions("!!cat te", is_asked=True) == []


async def test_what_is_found_is_drawn_at_once_not_when_all_is_found() -> None:
    drawn: list[int] = []
    found: list[str] = []
    words = Words(names, files, changed=lambda: drawn.append(len(found)))
    event = CompleteEvent(text_inserted=True)

    async with asyncio.timeout(DEADLINE_S):
        async for completion in words.get_completions_async(Document("see @te"), event):
            found.append(completion.text)

    assert drawn == [1, 2]


async def test_a_search_ends_once_something_else_is_typed() -> None:
    states = [CompletionState(Document("see @te"))]
    asked: list[str] = []

    async def endless(mention: str) -> AsyncGenerator[Pairs, None]:
        while True:
            asked.append(mention)
            if len(asked) == 3:
                states[0] = CompletionState(Document("see @tea"))
            yield (("@tests/", "folder"),)

    words = Words(names, endless, state=lambda: states[0])
    event = CompleteEvent(text_inserted=True)
    async with asyncio.timeout(DEADLINE_S):
        found = [
            each.text async for each in words.get_completions_async(Document("see @te"), event)
        ]

    assert found == ["@tests/"]
    assert asked == ["@te"] * 3
