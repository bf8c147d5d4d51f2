"""The figures of a folder equal what counting by hand gives, and stay JSON whatever the folder holds."""

import ast
import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.codemap.code_figures import DEADLINE_S, Measurement, as_json, measure
from midstream.codemap.source_files import at_most
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.ports import ToolContext
from midstream.tools import code_tools as tool
from midstream.tools.code_tools import TOOLS, ask_child

TWELVE_BRANCHES = "".join(f"    if x == {n}:\n        return {n}\n" for n in range(12))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a package with a cycle, a complex function, and three commits."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cart.py").write_text("from shop.prices import price\n")
    (package / "prices.py").write_text("import shop.cart\n\n\ndef price():\n    return 1\n")
    (tmp_path / "page.html").write_text("<p>one</p>\n<p>two</p>")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    commit(tmp_path, "init", "-q")
    commit(tmp_path, "add", ".")
    commit(tmp_path, "commit", "-qm", "one")
    for count in (2, 3):
        text = f"from shop.prices import price\n\n\ndef total(x):\n{TWELVE_BRANCHES}    return {count}\n"
        (package / "cart.py").write_text(text)
        commit(tmp_path, "commit", "-qam", f"change {count}")
    return tmp_path


def commit(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def by_path(files: Any) -> dict[str, Any]:
    return {file.path: file for file in files}


def test_sizes_are_what_counting_lines_gives(project: Path) -> None:
    figures = measure(project)

    texts = [path for path in project.rglob("*.*") if path.suffix in (".py", ".html")]
    assert figures.totals.files == len(texts)
    assert figures.totals.lines == sum(len(path.read_text().splitlines()) for path in texts)
    assert figures.totals.skipped == 1
    assert {one.name: one.files for one in figures.languages} == {"Python": 3, "HTML": 1}


def test_functions_are_found_with_their_complexity(project: Path) -> None:
    worst, other = measure(project).most_complex

    assert (worst.name, worst.path, worst.line) == ("total", "shop/cart.py", 4)
    assert worst.complexity == 13
    assert worst.lines == 26
    assert (other.name, other.complexity) == ("price", 1)


def test_python_functions_are_counted_as_the_syntax_tree_has_them() -> None:
    root = Path(str(tool.__file__)).parent
    figures = measure(root)

    trees = [ast.parse(path.read_text()) for path in root.rglob("*.py")]
    plain = sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for tree in trees
        for node in ast.walk(tree)
    )
    assert figures.totals.functions == plain


def test_change_times_complexity_ranks_the_files(project: Path) -> None:
    figures = measure(project)

    assert figures.history.commits == 3
    cart = by_path(figures.ranking)["shop/cart.py"]
    assert (cart.changes, cart.complexity, cart.score) == (3, 13, 39)
    assert [file.path for file in figures.ranking] == ["shop/cart.py", "shop/prices.py"]
    assert figures.most_changed[0].path == "shop/cart.py"


def test_imports_and_their_cycle_are_found(project: Path) -> None:
    imports = measure(project).imports

    assert (imports.modules, imports.edges) == (3, 2)
    assert imports.cycles == (("shop.cart", "shop.prices"),)
    assert {one.module: one.by for one in imports.most_imported} == {
        "shop.cart": 1,
        "shop.prices": 1,
    }


@pytest.mark.parametrize(
    ("files", "languages", "most_imported", "cycles"),
    [
        ({"a.js": 'import "./b.js"', "b.js": 'require("./a")', "c.ts": 'export * from "./a"'},
         ("JavaScript", "TypeScript"), ("a.js", 2), (("a.js", "b.js"),)),
        ({"go.mod": "module x.org/m\n", "main.go": 'package main\nimport "x.org/m/in/p"\n',
          "in/p/p.go": "package p\n", "in/p/q.go": "package p\n"}, ("Go",), ("in/p", 1), ()),
        ({"src/lib.rs": "mod a;\nmod b;\n", "src/a.rs": "use crate::b::B;\n",
          "src/b.rs": "use super::a;\n"}, ("Rust",), ("src/a.rs", 1), (("src/a.rs", "src/b.rs"),)),
        ({"o/A.java": "import o.p.B;", "o/p/B.java": "import o.A;"},
         ("Java",), ("o/A.java", 1), (("o/A.java", "o/p/B.java"),)),
    ],
)  # fmt: skip
def test_imports_of_other_languages_are_measured(
    tmp_path: Path,
    files: dict[str, str],
    languages: tuple[str, ...],
    most_imported: tuple[str, int],
    cycles: tuple[tuple[str, ...], ...],
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    imports = measure(tmp_path).imports

    assert imports.languages == languages
    assert (imports.most_imported[0].module, imports.most_imported[0].by) == most_imported
    assert (imports.cycle_count, imports.cycles) == (len(cycles), cycles)


def test_imports_that_nobody_looked_for_are_not_told_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.rb").write_text("require_relative 'b'\ndef f\n  1\nend\n")

    figures = measure(tmp_path)

    assert figures.imports.cycle_count is None
    assert figures.imports.languages == ()
    assert "Imports were not measured in: Ruby." in figures.notes


def test_an_empty_folder_has_figures(tmp_path: Path) -> None:
    figures = measure(tmp_path)

    assert figures.totals.files == figures.totals.lines == figures.totals.functions == 0
    assert figures.ranking == ()
    assert figures.history.available is False
    assert figures.notes == ("No git history here: changes are not counted.",)


def test_the_same_folder_gives_the_same_figures(project: Path) -> None:
    assert measure(project) == measure(project)


def test_the_last_commits_can_be_fewer(project: Path) -> None:
    assert by_path(measure(project, commits=1).most_changed)["shop/cart.py"].changes == 1


def test_foreign_text_that_no_parser_takes_is_counted_and_left(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n    '''never ended\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5_000 + ")" * 5_000 + "\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe broken \x80\n")
    (tmp_path / "empty.py").write_text("")

    figures = measure(tmp_path)

    assert figures.totals.files == 4
    assert figures.totals.lines == 4


async def test_what_a_parser_complains_of_is_not_taken_for_figures(tmp_path: Path) -> None:
    (tmp_path / "deep.java").write_text("class A {\n" * 40_000)

    assert (
        json.loads(await ask_child("figures", tmp_path, ("200", "10")))["totals"]["lines"] == 40_000
    )


def test_a_file_that_takes_too_long_is_named_in_the_notes(project: Path) -> None:
    @contextmanager
    def too_long() -> Iterator[None]:
        yield
        raise TimeoutError

    figures = measure(project, guard=too_long)

    assert figures.totals.functions == 0
    assert figures.totals.lines == measure(project).totals.lines
    assert figures.notes == ("Files whose functions could not be read, only their lines: 3.",)


def test_what_never_ends_is_ended() -> None:
    with pytest.raises(TimeoutError), at_most(0.01):
        sum(1 for _ in itertools.count())

    with at_most(60):
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_generated_file_counts_its_lines_only(tmp_path: Path) -> None:
    (tmp_path / "bundle.js").write_text("function f(a){if(a){return 1}}" * 1_000)

    figures = measure(tmp_path)

    assert (figures.totals.lines, figures.totals.functions) == (1, 0)


def test_a_file_whose_name_is_no_text_is_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.py")).write_text("x = 1\n")
    (tmp_path / "a\nb.py").write_text("x = 1\n")

    figures = measure(tmp_path)

    assert (figures.totals.files, figures.totals.skipped) == (0, 2)
    assert json.loads(as_json(figures))


def test_files_that_hold_secrets_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / "a.py").write_text("x = 1\n")

    totals = measure(tmp_path).totals

    assert (totals.files, totals.lines, totals.skipped) == (1, 1, 1)


def test_when_time_is_up_the_figures_say_what_is_missing(project: Path) -> None:
    ticks = itertools.count(0, DEADLINE_S / 2.5)

    figures = measure(project, clock=lambda: next(ticks))

    assert figures.notes == ("2 of 5 files were looked at; the rest is not in here.",)


def test_long_figures_are_shortened_and_stay_json(project: Path) -> None:
    figures = measure(project)
    whole = as_json(figures)

    short = as_json(figures, max_chars=len(whole) - 1)

    assert len(short) < len(whole)
    assert msgspec.json.decode(short, type=Measurement).totals == figures.totals
    assert msgspec.json.decode(as_json(figures, max_chars=1), type=Measurement).largest == ()


# --- the tool -------------------------------------------------------------------------------------


def context(workspace: Path) -> ToolContext:
    return ToolContext(
        workspace=workspace, run="r", agent="a", stop=asyncio.Event(), progress=lambda text: None
    )


async def call(arguments: dict[str, Any], workspace: Path) -> Any:
    result = TOOLS[0].function(arguments, context(workspace))
    assert not isinstance(result, str)
    return await result  # type: ignore[misc]


async def test_the_tool_returns_the_figures_as_json(project: Path) -> None:
    text = await call({"top": 1}, project)

    assert json.loads(text) == json.loads(as_json(measure(project, top=1)))


async def test_arguments_out_of_bounds_are_refused(project: Path) -> None:
    with pytest.raises(UserMistake):
        await call({"top": 1_000}, project)


async def test_a_module_of_the_workspace_is_never_what_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("midstream", "msgspec", "lizard", "ast", "time"):
        (project / f"{name}.py").write_text("raise SystemExit('taken over')\n")
    monkeypatch.chdir(project)

    assert json.loads(await ask_child("figures", project, ("200", "10")))["totals"]["files"] == 9


async def test_a_measuring_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = script(tmp_path, "echo first >&2; echo out of memory >&2; exit 3")
    monkeypatch.setattr(sys, "executable", str(fake))

    with pytest.raises(WorldTrouble, match="code 3: out of memory"):
        await ask_child("figures", tmp_path, ("200", "10"))


async def test_the_measuring_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = script(tmp_path, 'echo "key: $OPENAI_API_KEY path: ${PATH:+there}"; exit 3')
    monkeypatch.setattr(sys, "executable", str(fake))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    with pytest.raises(WorldTrouble, match="key:  path: there"):
        await ask_child("figures", tmp_path, ("200", "10"))


async def test_no_python_to_measure_with_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))

    with pytest.raises(WorldTrouble, match="could not be started"):
        await ask_child("figures", tmp_path, ("200", "10"))


async def test_cancelling_kills_the_measuring_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(sys, "executable", str(fake))

    measuring = asyncio.create_task(ask_child("figures", tmp_path, ("200", "10")))
    child = tmp_path / "child"
    await eventually(lambda: child.exists() and child.read_text().endswith("\n"))
    measuring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await measuring
    await eventually(lambda: not is_alive(int(child.read_text())))


async def eventually(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


def script(folder: Path, body: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
