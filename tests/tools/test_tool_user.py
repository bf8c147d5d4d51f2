import asyncio
import datetime
import functools
import importlib.util
import os
import py_compile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import pytest
from toolbench import Bench

from midstream.language.errors import AuthorMistake
from midstream.runtime.ports import ToolContext
from midstream.tools.base import tool_from
from midstream.tools.manager import ToolManager
from midstream.tools.user_tools import as_tool, load_user_tools, tool

HEAD = (
    "from midstream.tools.user_tools import tool\nfrom midstream.runtime.ports import ToolContext\n"
)


class Place(pydantic.BaseModel):
    name: str
    near: "list[Place]" = []

    @pydantic.field_validator("name")
    @classmethod
    def has_no_digit(cls, name: str) -> str:
        if any(each.isdigit() for each in name):
            raise ValueError("a place has no digits")
        return name.title()


class Trip(pydantic.BaseModel):
    day: datetime.date
    to: Place


@tool(effect="read")
def plan_trips(
    trips: list[Trip],
    home: Place | None = None,
    days: Annotated[int, pydantic.Field(ge=1, description="how many")] = 1,
    mood: Annotated[str, "how it feels"] = "fine",
    start: Place = Place(name="here"),  # noqa: B008
) -> str:
    """Plan."""
    there = [f"{trip.to.name} at {trip.day:%d.%m.}" for trip in trips]
    return f"{there} from {home and home.name} by {start.name}, {days}, {mood}"


@tool(effect="read", timeout_s=10)
def word_count(
    text: str,
    minimum: int = 1,
    mode: Literal["all", "long"] = "all",
    extra: list[str] | None = None,
) -> str:
    """Count the words of a text.

    Short ones can be left out.

    Args:
        text: the text, of any
            length.
        minimum (int): the letters a word needs.

    Returns:
        The number.
    """
    return str(len([word for word in text.split() if len(word) >= minimum]))


@tool()
async def whisper(context: ToolContext, volume: float) -> dict[str, object]:
    """Whisper."""
    await asyncio.sleep(0)
    return {"to": context.agent, "volume": volume}


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_the_schema_comes_from_hints_and_docstring() -> None:
    spec = tool_from(word_count).spec

    assert spec.name == "word_count"
    assert spec.description == "Count the words of a text.\n\nShort ones can be left out."
    assert (spec.effect, spec.timeout_s, spec.needs_approval) == ("read", 10, False)
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "the text, of any length."},
            "minimum": {
                "type": "integer",
                "description": "the letters a word needs.",
                "default": 1,
            },
            "mode": {"enum": ["all", "long"], "default": "all"},
            "extra": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_tool_that_changes_things_asks_first_unless_it_says_otherwise() -> None:
    quiet = tool(needs_approval=False)(lambda: None)

    assert tool_from(whisper).spec.needs_approval is True
    assert tool_from(whisper).spec.effect == "once"
    assert "context" not in tool_from(whisper).spec.parameters["properties"]
    with pytest.raises(AuthorMistake, match="no name for a tool"):
        tool_from(quiet)


def test_a_marked_function_is_still_that_function() -> None:
    assert word_count("a bb ccc", minimum=2) == "2"


async def test_user_tools_are_called_like_built_in_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ToolManager([tool_from(word_count), tool_from(whisper)]))

    assert await bench.text("word_count", text="a bb ccc", minimum=2) == "2"
    assert await bench.text("whisper", volume=1) == '{"to":"coder","volume":1.0}'
    assert "at $.mode" in await bench.failure("word_count", text="", mode="short")
    assert "unknown property" in await bench.failure("whisper", volume=1, context={})


def test_notes_of_a_parameter_and_pydantic_models_are_in_the_schema() -> None:
    parameters = tool_from(plan_trips).spec.parameters

    assert parameters["properties"] == {
        "trips": {"type": "array", "items": {"$ref": "#/$defs/Trip"}},
        "home": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
        "days": {"type": "integer", "minimum": 1, "description": "how many", "default": 1},
        "mood": {"type": "string", "description": "how it feels", "default": "fine"},
        "start": {"$ref": "#/$defs/Place"},
    }
    assert parameters["$defs"].keys() == {"Place", "Trip"}
    assert parameters["$defs"]["Trip"]["properties"]["to"] == {"$ref": "#/$defs/Place"}
    assert parameters["required"] == ["trips"]


async def test_a_function_is_given_pydantic_models_and_the_model_is_told_what_does_not_fit(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ToolManager([tool_from(plan_trips)]))
    trip = {"day": "2026-05-01", "to": {"name": "rome"}}

    told = await bench.text("plan_trips", trips=[trip], home={"name": "bonn"}, days=2)
    assert told == "['Rome at 01.05.'] from Bonn by Here, 2, fine"
    assert "at $.days" in await bench.failure("plan_trips", trips=[], days=0)
    assert "at $.trips[0]" in await bench.failure("plan_trips", trips=[{"day": "2026-05-01"}])
    wrong = await bench.failure("plan_trips", trips=[{**trip, "to": {"name": "r0me"}}])
    assert "to.name: Value error, a place has no digits - at `$.trips[0]`" in wrong


async def test_one_that_is_async_behind_a_plain_decorator_runs_and_one_that_yields_has_not(
    tmp_path: Path,
) -> None:
    async def count(to: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"to": to}

    @functools.wraps(count)
    def logged(to: int) -> object:
        return count(to)

    def each(to: int) -> Iterator[int]:
        yield from range(to)

    bench = Bench(tmp_path, ToolManager([as_tool(logged), as_tool(each)]))

    assert await bench.text("count", to=3) == '{"to":3}'
    assert "a generator, nothing of which has run" in await bench.failure("each", to=3)


async def test_a_default_that_is_a_field_says_what_pydantic_reads_in_it(tmp_path: Path) -> None:
    def pack(
        bags: int = pydantic.Field(2, ge=1, description="how many"),
        to: str = pydantic.Field(min_length=2),
        of: list[str] = pydantic.Field(default_factory=lambda: ["wool"]),  # noqa: B008
    ) -> str:
        """Pack."""
        return f"{bags} bags of {of[0]} for {to}"

    made = tool_from(tool(effect="read")(pack))
    bench = Bench(tmp_path, ToolManager([made]))

    assert made.spec.parameters["properties"] == {
        "bags": {"type": "integer", "minimum": 1, "description": "how many", "default": 2},
        "to": {"type": "string", "minLength": 2},
        "of": {"type": "array", "items": {"type": "string"}},
    }
    assert made.spec.parameters["required"] == ["to"]
    assert await bench.text("pack", to="Rome") == "2 bags of wool for Rome"


def test_two_types_of_one_name_are_refused_in_our_words() -> None:
    other = pydantic.create_model("Place", street=(str, ...))

    def walk(start: Place, end: other) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(AuthorMistake, match="two types are called Place"):
        tool_from(tool()(walk))


async def test_a_union_of_models_is_refused_with_what_does_work(tmp_path: Path) -> None:
    class Bus(pydantic.BaseModel):
        line: int

    class Walk(pydantic.BaseModel):
        km: float

    def go(by: Bus | Walk) -> None: ...

    with pytest.raises(AuthorMistake, match=r"Make a model of the union: pydantic.RootModel\[A"):
        tool_from(tool()(go))

    def travel(by: pydantic.RootModel[Bus | Walk]) -> str:
        return type(by.root).__name__

    bench = Bench(tmp_path, ToolManager([tool_from(tool(effect="read")(travel))]))
    assert await bench.text("travel", by={"km": 2.5}) == "Walk"


async def test_a_folder_of_files_becomes_tools(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "tools",
        "nice.py",
        HEAD + "@tool(effect='read')\ndef double(n: int) -> int:\n    'Double.'\n    return n * 2\n"
        "def helper(): ...\n@tool(effect='read')\ndef fail() -> str:\n    raise KeyError('k')\n",
    )
    write(folder, "_private.py", "raise RuntimeError('never imported')\n")
    write(folder, "notes.txt", "no python\n")

    tools, problems = load_user_tools(sorted(folder.glob("*.py")))
    bench = Bench(tmp_path, ToolManager(tools))

    assert problems == ()
    assert [each.spec.name for each in tools] == ["double", "fail"]
    assert await bench.text("double", n=21) == "42"
    assert "KeyError: 'k' (nice.py, line 10)" in await bench.failure("fail")
    assert not (folder / "__pycache__").exists()


def test_a_missing_folder_has_no_tools(tmp_path: Path) -> None:
    assert load_user_tools(()) == ((), ())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('boom')\n", 2, "cannot be imported: ValueError: boom."),
        ("x = 1\ndef f(:\n", 2, "SyntaxError"),
        ("import no_such_module_here\n", 1, "no_such_module_here"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("x = '\0'\n", 0, "null bytes"),
        (HEAD + "@tool()\ndef f(*many: int) -> str: ...\n", 3, "*many"),
        (HEAD + "@tool()\ndef f(o: object()) -> str: ...\n", 3, "cannot be shown to a model"),
        (HEAD + "@tool()\ndef f(o: object) -> str: ...\n", 3, "the type object has no JSON Schema"),
        (HEAD + "@tool()\ndef f(o: 'Missing') -> str: ...\n", 3, "Missing"),
        (HEAD + "@tool(name='a b')\ndef f() -> str: ...\n", 3, "no name for a tool"),
        (HEAD + "@tool(effect='maybe')\ndef f() -> str: ...\n", 3, "wrong effect"),
        (HEAD + "@tool()\ndef get_time() -> str: ...\n", 3, "taken by midstream"),
        (
            HEAD + "@tool()\ndef f() -> str: ...\n@tool(name='f')\ndef g() -> str: ...\n",
            5,
            "taken by another file",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    folder = write(tmp_path / "tools", "bad.py", text)
    write(folder, "good.py", HEAD + "@tool(effect='read')\ndef good() -> str:\n    return ''\n")

    tools, problems = load_user_tools(sorted(folder.glob("*.py")))

    assert "good" in [each.spec.name for each in tools]
    assert len(problems) == 1
    assert problems[0].file == str(folder / "bad.py")
    assert problems[0].line == line
    assert words in str(problems[0])


def test_a_cached_file_beside_a_tool_is_never_run_in_its_place(tmp_path: Path) -> None:
    folder = write(tmp_path / "tools", "mine.py", "raise RuntimeError('the cache ran')\n")
    source = folder / "mine.py"
    stamp = source.stat()
    cache = importlib.util.cache_from_source(str(source))
    source.write_text("raise SystemExit('cached one ')\n".ljust(stamp.st_size))
    py_compile.compile(str(source), cache)
    cached = source.stat()
    harmless = HEAD + "@tool(effect='read')\ndef ok() -> str:\n    return 'ok'\n"
    source.write_text(harmless)
    # The cache looks fresh: it holds the time and size that the source now claims.
    data = bytearray(Path(cache).read_bytes())
    data[8:12] = int(cached.st_mtime).to_bytes(4, "little")
    data[12:16] = len(harmless).to_bytes(4, "little")
    Path(cache).write_bytes(data)
    os.utime(source, (int(cached.st_mtime), int(cached.st_mtime)))

    tools, problems = load_user_tools(sorted(folder.glob("*.py")))

    assert problems == ()
    assert [each.spec.name for each in tools] == ["ok"]
