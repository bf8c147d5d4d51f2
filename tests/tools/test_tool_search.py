import os
from pathlib import Path

import pytest
from toolbench import Bench

from midstream.language.names import Json
from midstream.tools import search as search_module
from midstream.tools.line_patterns import required_text

ONE = "[1 matching line in 1 file]"
WAYS = [pytest.param("ripgrep", marks=pytest.mark.needs("rg")), "python"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    files = {
        "a.py": "import os\n\nprint('Hello')\n",
        "lib/b.py": "import sys  # needle\nNEEDLE = 1\n",
        "lib/notes.txt": "a needle in the hay\n",
        "build/out.py": "needle\n",
        "lib/.gitignore": "*.log\n!keep.log\n",
        "lib/x.log": "needle\n",
        "lib/keep.log": "needle\n",
        ".gitignore": "/build/\n",
        ".hidden/c.py": "needle\n",
        ".git/config": "needle\n",
        ".env": "needle\n",
        "server.key": "needle\n",
        "odd [name].md": "a.b*c needle\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data.bin").write_bytes(b"needle\0needle\n")
    (tmp_path / "wide.txt").write_bytes("needle\n".encode("utf-16"))
    (tmp_path / "min.js").write_text("x" * 5_000 + "haystack" + "y" * 5_000)
    (tmp_path / "ends.txt").write_bytes(b"dos\r\nunixoid\r\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait\n")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.fixture(params=WAYS)
def bench(
    request: pytest.FixtureRequest, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    if request.param == "python":
        monkeypatch.setattr(search_module, "found_program", lambda name, workspace: None)
    return Bench(workspace)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            {"text": "needle"},
            [
                "lib/b.py:1: import sys  # needle",
                "lib/keep.log:1: needle",
                "lib/notes.txt:1: a needle in the hay",
                "odd [name].md:1: a.b*c needle",
                "[4 matching lines in 4 files]",
            ],
        ),
        (
            {"text": "needle", "ignore_case": True, "glob": "*.py"},
            [
                "lib/b.py:1: import sys  # needle",
                "lib/b.py:2: NEEDLE = 1",
                "[2 matching lines in 1 file]",
            ],
        ),
        ({"text": "a.b*c"}, ["odd [name].md:1: a.b*c needle", "[1 matching line in 1 file]"]),
        ({"text": "axbc"}, ["No matches."]),
        ({"text": "-e"}, ["No matches."]),
        ({"text": "--files"}, ["No matches."]),
        ({"text": "import", "path": "a.py"}, ["a.py:1: import os", "[1 matching line in 1 file]"]),
        (
            {"text": "needle", "path": "lib", "glob": "*.log"},
            ["lib/keep.log:1: needle", "[1 matching line in 1 file]"],
        ),
        (
            {"text": "needle", "path": "build"},
            ["build/out.py:1: needle", "[1 matching line in 1 file]"],
        ),
        (
            {"text": "needle", "path": ".hidden"},
            [".hidden/c.py:1: needle", "[1 matching line in 1 file]"],
        ),
        (
            {"text": "needle", "include_ignored": True, "glob": "*.py"},
            [
                ".hidden/c.py:1: needle",
                "build/out.py:1: needle",
                "lib/b.py:1: import sys  # needle",
                "[3 matching lines in 3 files]",
            ],
        ),
        (
            {"text": "needle", "max_results": 1},
            [
                "lib/b.py:1: import sys  # needle",
                "[the first 1 matches; there are more: narrow the search]",
            ],
        ),
        ({"text": "au lait"}, ["latin.txt:1: caf\ufffd au lait", "[1 matching line in 1 file]"]),
        (
            {"text": r"^needle|^NE+DLE\b", "regex": True},
            [
                "lib/b.py:2: NEEDLE = 1",
                "lib/keep.log:1: needle",
                "[2 matching lines in 2 files]",
            ],
        ),
        (
            {"text": r"sys\s+# ne+dle$", "regex": True, "ignore_case": True},
            ["lib/b.py:1: import sys  # needle", "[1 matching line in 1 file]"],
        ),
        (
            {"text": r"in the (?:hay|sun)", "regex": True, "path": "lib"},
            ["lib/notes.txt:1: a needle in the hay", "[1 matching line in 1 file]"],
        ),
        ({"text": r"caf.\sau", "regex": True}, ["latin.txt:1: caf\ufffd au lait", ONE]),
        ({"text": r"\x61 needle", "regex": True}, ["lib/notes.txt:1: a needle in the hay", ONE]),
        ({"text": r"^unix[a-z]*$", "regex": True}, ["ends.txt:2: unixoid", ONE]),
        ({"text": r"\Aunixoid\z", "regex": True}, ["ends.txt:2: unixoid", ONE]),
        ({"text": r"-e(edle)", "regex": True}, ["No matches."]),
        ({"text": "(open", "regex": True}, None),
        ({"text": "(?=ahead)x", "regex": True}, None),
        ({"text": "((a{100}){100}){100}", "regex": True}, None),
        ({"text": "needle", "path": "../"}, None),
        ({"text": "root", "path": "out"}, None),
        ({"text": "two\nlines"}, None),
        ({"text": "x", "path": "missing"}, None),
        ({"text": "x", "path": "pipe"}, None),
        ({"text": "x", "glob": "!*.py"}, None),
        ({"text": "x", "glob": "*a*a*a*a*a*a*a*a*b"}, None),
    ],
)
async def test_a_search_finds_the_same_with_and_without_ripgrep(
    bench: Bench, arguments: dict[str, object], lines: list[str] | None
) -> None:
    ended = await bench.call("exact_search", **arguments)

    assert ended.outcome == ("failed" if lines is None else "completed"), ended.text
    if lines is not None:
        assert ended.text.splitlines() == lines


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"def \w+\(self", "def "),
        (r"ab+c{2}d?e", "ab"),
        ("needles?", "needle"),
        ("colou?r of money", "r of money"),
        ("spring|autumn", ""),
        ("(?i)needle", ""),
        (r"\x41bc", ""),
        ("[[:alpha:]x]y", ""),
        ("(inside)?", ""),
        ("[abc]", ""),
        ("übel", ""),
    ],
)
def test_ripgrep_is_asked_for_no_more_than_each_line_must_hold(expression: str, text: str) -> None:
    assert required_text(expression) == text


async def test_an_expression_that_runs_away_elsewhere_ends(bench: Bench, workspace: Path) -> None:
    (workspace / "long.txt").write_text("a" * 1_000_000)

    assert await bench.text("exact_search", text="(a*)*(a*)*b$", regex=True) == "No matches."


async def test_secrets_are_never_found(bench: Bench) -> None:
    text = await bench.text("exact_search", text="needle", include_ignored=True)

    assert ".env" not in text
    assert "server.key" not in text
    assert ".git/" not in text


async def test_a_long_line_is_shown_around_the_text(bench: Bench) -> None:
    text = await bench.text("exact_search", text="haystack")

    assert "xxxhaystackyyy" in text
    assert len(text) < 500


async def test_binary_files_are_not_searched(bench: Bench) -> None:
    text = await bench.text("exact_search", text="needle")

    assert "data.bin" not in text
    assert "wide.txt" not in text


async def test_a_search_with_enough_results_ends(bench: Bench, workspace: Path) -> None:
    for number in range(50):
        (workspace / f"many{number:02}.txt").write_text("match\n" * 5_000)

    text = await bench.text("exact_search", text="match", max_results=5)

    assert text.count("many00.txt") == 5


# --- find_files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"glob": "*.py"}, ["a.py (26 B)", "lib/b.py (32 B)", "[2 files]"]),
        ({"glob": "lib/*.txt"}, ["lib/notes.txt (20 B)", "[1 file]"]),
        ({"glob": "*.log", "path": "lib"}, ["lib/keep.log (7 B)", "[1 file]"]),
        (
            {"glob": "*.py", "include_ignored": True, "max_results": 2},
            [".hidden/c.py (7 B)", "a.py (26 B)", "[2 of 4 files: narrow the pattern]"],
        ),
        ({"glob": "*.rs"}, ["No files."]),
        ({"glob": "config", "include_ignored": True}, ["No files."]),
        ({"glob": "!*.py"}, None),
        ({"glob": "*a*a*a*a*a*a*a*a*b"}, None),
        ({"glob": "*", "path": ".."}, None),
        ({"glob": "*", "path": "out"}, None),
    ],
)
async def test_files_are_found_by_their_paths(
    workspace: Path, arguments: dict[str, Json], lines: list[str] | None
) -> None:
    ended = await Bench(workspace).call("find_files", **arguments)

    assert ended.outcome == ("failed" if lines is None else "completed"), ended.text
    if lines is not None:
        assert ended.text.splitlines() == lines


async def test_what_changed_last_is_found_first(workspace: Path) -> None:
    for number, name in enumerate(["lib/notes.txt", "latin.txt", "wide.txt", "ends.txt"]):
        os.utime(workspace / name, (number, number))

    found = await Bench(workspace).text("find_files", glob="*.txt", sort="newest")

    assert [line.split()[0] for line in found.splitlines()[:4]] == [
        "ends.txt",
        "wide.txt",
        "latin.txt",
        "lib/notes.txt",
    ]


# --- list_directory -----------------------------------------------------------------------------


async def test_a_listing_leaves_out_what_git_ignores(workspace: Path) -> None:
    text = await Bench(workspace).text("list_directory")

    assert text.splitlines() == [
        ".env (7 B)",
        ".gitignore (8 B)",
        ".hidden/",
        "a.py (26 B)",
        "data.bin (14 B)",
        "ends.txt (14 B)",
        "latin.txt (13 B)",
        "lib/",
        "lib/.gitignore (16 B)",
        "lib/b.py (32 B)",
        "lib/keep.log (7 B)",
        "lib/notes.txt (20 B)",
        "min.js (10.0 kB)",
        "odd [name].md (13 B)",
        "out -> /etc",
        "pipe (0 B)",
        "server.key (7 B)",
        "wide.txt (16 B)",
    ]


@pytest.mark.parametrize(
    ("arguments", "line", "is_there"),
    [
        ({"depth": 1}, "lib/b.py (32 B)", False),
        ({"include_ignored": True}, "build/out.py (7 B)", True),
        ({"include_ignored": True}, ".git/", False),
        ({"path": "build"}, "build/out.py (7 B)", True),
        ({"path": ".hidden"}, ".hidden/c.py (7 B)", True),
        ({"path": "lib"}, "lib/x.log (7 B)", False),
    ],
)
async def test_a_listing_goes_as_deep_as_asked(
    workspace: Path, arguments: dict[str, object], line: str, is_there: bool
) -> None:
    text = await Bench(workspace).text("list_directory", **arguments)

    assert (line in text.splitlines()) is is_there


@pytest.mark.parametrize("path", ["missing", "a.py", "out", "..", "/etc"])
async def test_only_a_folder_of_the_workspace_is_listed(workspace: Path, path: str) -> None:
    await Bench(workspace).failure("list_directory", path=path)


async def test_a_listing_ends_somewhere(tmp_path: Path) -> None:
    for number in range(1_100):
        (tmp_path / f"{number}.txt").touch()

    assert "more than 1,000" in await Bench(tmp_path).text("list_directory")


async def test_hostile_ignore_files_are_survived(tmp_path: Path) -> None:
    hostile = ["*a" * 100 + "b", "[", "!", "\0", "\\", "**/" * 50 + "x", "(((", "*.log"]
    (tmp_path / ".gitignore").write_text("\n".join(hostile))
    (tmp_path / ("a" * 200)).touch()
    (tmp_path / "x.log").touch()

    text = await Bench(tmp_path).text("list_directory")

    assert "aaa" in text
    assert "x.log" not in text
