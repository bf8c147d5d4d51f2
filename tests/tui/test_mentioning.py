"""Files as somebody types their names: the first come while the others are still looked up."""

import asyncio
from pathlib import Path

import pytest
from deadline import DEADLINE_S

from midstream.app.file_mentions import FileMentions, missing
from midstream.system import workspace_files


async def test_the_first_names_come_before_all_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()

    async def listed(program: str, workspace: Path, found: workspace_files._Found) -> bool:
        for number in range(workspace_files._A_FEW):
            found.add(f"name{number}")
        await goes_on.wait()
        found.add("nam")
        return True

    monkeypatch.setattr(workspace_files, "found_program", lambda *_: "rg")
    monkeypatch.setattr(workspace_files, "_listed", listed)
    mentioning = FileMentions(tmp_path)

    async with asyncio.timeout(DEADLINE_S):
        found = mentioning.found("@nam")
        first = await anext(found)
        again = await anext(found)
        goes_on.set()
        last = [pairs async for pairs in found][-1]
    await mentioning.close()

    assert {name.rstrip("0123456789") for name, _ in first} == {"@name"}
    assert again == first
    assert last[0] == ("@nam", "file")


async def test_where_nothing_is_there_nothing_is_found(tmp_path: Path) -> None:
    mentioning = FileMentions(tmp_path)

    async with asyncio.timeout(DEADLINE_S):
        found = [pairs async for pairs in mentioning.found("@x")]
    await mentioning.close()

    assert set(found) == {()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@nope.png what is this", ("nope.png",)),
        ("look (@src/nope.py), then @nope.png. And @nope.png!", ("src/nope.py", "nope.png")),
        ('see @"two words.txt"', ("two words.txt",)),
        ("@./nope and @src/app.py", ("./nope",)),
        ("@src/app.js", ("src/app.js",)),
        ("@there.md @src @src/ @./src", ()),
        ("ada@example.com, @ada, @example.com, <ada@host.py>", ()),
        (
            "@property\n@dataclass\n@pytest.fixture\n@functools.cache\n@app.get('/x.json')\ndef f():",
            (),
        ),
        ("npm i @types/node @types/bn.js @babel/core@7.1.0", ()),
        ("@coder @reviewers/tests @3 @ @.", ()),
    ],
)
def test_only_what_looks_like_a_file_is_missed(
    tmp_path: Path, text: str, found: tuple[str, ...]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").touch()
    (tmp_path / "there.md").touch()

    assert missing(text, tmp_path) == found
