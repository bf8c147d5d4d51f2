"""Files that stand unsaved in the editor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from acp_kit import Editor, home, talking, work
from api_kit import write
from support.openai_server import Call, Reply

from midstream.agents.json_rpc import RpcError

__all__ = ["home", "work"]


class Buffers:
    """What an editor has open: texts by path. It saves what it is given, as `formats` has it."""

    def __init__(self, editor: Editor, **texts: str) -> None:
        self.texts = texts
        self.formats: Callable[[str], str] = str
        editor.answers["fs/read_text_file"] = self.read
        editor.answers["fs/write_text_file"] = self.write
        editor.answers["session/request_permission"] = lambda params: {
            "outcome": {"outcome": "selected", "optionId": "once"}
        }

    def read(self, params: Any) -> Any:
        name = Path(params["path"]).name.partition(".")[0]
        if name not in self.texts:
            raise RpcError(-32002, "not open")
        return {"content": self.texts[name]}

    def write(self, params: Any) -> Any:
        path = Path(params["path"])
        self.texts[path.name.partition(".")[0]] = self.formats(params["content"])
        path.write_text(self.formats(params["content"]), encoding="utf-8")
        return {}


def calls(name: str, **arguments: Any) -> Reply:
    return Reply(calls=(Call(name=name, arguments=arguments),))


async def coder(editor: Editor, work: Path, *, writes: bool = True) -> str:
    session = await editor.opened(work, fs={"readTextFile": True, "writeTextFile": writes})
    await editor.call(
        "session/set_config_option", sessionId=session, configId="talks_to", value="role:coder"
    )
    return session


def edit(old: str, new: str) -> Reply:
    return calls("edit_file", path="a.txt", edits=[{"old_text": old, "new_text": new}])


async def test_what_is_not_saved_is_read(work: Path) -> None:
    write(work, "a.txt", "saved\n")
    write(work, "b.txt", "on the disk\n")
    script = (calls("read_files", paths=["a.txt", "b.txt"]), Reply(text="Read."))
    async with talking(*script) as (editor, server):
        session = await coder(editor, work)
        Buffers(editor, a="unsaved")
        await editor.prompt(session, "look")

    result = server.requests[-1]["messages"][-1]["content"]
    assert "unsaved" in result
    assert "on the disk" in result


async def test_an_edit_is_of_what_is_not_saved_and_undo_gives_it_back(work: Path) -> None:
    file = write(work, "a.txt", "saved\n")
    script = (edit("unsaved", "edited"), Reply(text="Edited."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        buffers = Buffers(editor, a="unsaved\n")
        await editor.prompt(session, "edit it")

        assert (buffers.texts["a"], file.read_text()) == ("edited\n", "edited\n")
        asked = next(params for method, params in editor.asked if "permission" in method)
        assert "stands unsaved in your editor" in str(asked)
        diff = editor.told("tool_call_update")[-1]["content"][0]
        assert (diff["oldText"], diff["newText"]) == ("unsaved\n", "edited\n")
        await editor.prompt(session, "/undo")
        assert file.read_text() == "unsaved\n"


async def test_what_an_editor_makes_of_it_as_it_saves_is_undone_too(work: Path) -> None:
    file = write(work, "a.txt", "saved\n")
    script = (edit("unsaved", "edited"), Reply(text="Edited."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        Buffers(editor, a="unsaved\n").formats = str.upper
        await editor.prompt(session, "edit it")
        assert file.read_text() == "EDITED\n"
        await editor.prompt(session, "/undo")

    assert file.read_text() == "unsaved\n"


async def test_a_file_that_is_saved_is_written_as_ever(work: Path) -> None:
    file = write(work, "a.txt", "saved\r\nas it is\r\n")
    script = (edit("saved", "edited"), Reply(text="Edited."))
    async with talking(*script) as (editor, _):
        session = await coder(editor, work)
        buffers = Buffers(editor, a="saved\nas it is")
        await editor.prompt(session, "edit it")

    assert file.read_bytes() == b"edited\r\nas it is\r\n"
    assert buffers.texts["a"] == "saved\nas it is"


async def test_what_cannot_be_saved_there_is_left_alone(work: Path) -> None:
    file = write(work, "a.txt", "saved\n")
    script = (calls("write_file", path="a.txt", content="new\n"), Reply(text="I see."))
    async with talking(*script) as (editor, server):
        session = await coder(editor, work, writes=False)
        Buffers(editor, a="unsaved\n")
        await editor.prompt(session, "write it")

    assert file.read_text() == "saved\n"
    assert "changes in the editor" in server.requests[-1]["messages"][-1]["content"]
