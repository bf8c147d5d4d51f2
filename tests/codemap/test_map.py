"""explain_codebase: what a map shows, in which order, within which budget, and what it never shows."""

import asyncio
import subprocess
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toolbench import Bench

from midstream.codemap import map_builder, ranking
from midstream.codemap.definitions import Ctags, match_patterns, read_python
from midstream.codemap.file_imports import read_imports, resolve_imports
from midstream.codemap.languages import language_of
from midstream.codemap.map_builder import CHARS_PER_TOKEN, Wanted, draw_map
from midstream.codemap.ranking import ScannedFile
from midstream.safety.policy import Policy
from midstream.tools.code_tools import MIN_TOKENS
from midstream.tools.manager import ToolManager

SHOP = {
    "README.md": "# Shop\n",
    "shop/__init__.py": "",
    "shop/base.py": (
        '"""What all lean on."""\n\n\n'
        "class Base:\n    def run(self): ...\n    def _inner(self): ...\n"
    ),
    "shop/till.py": "from shop.base import Base\n\n\nclass Till(Base):\n    def change(self): ...\n",
    "shop/price.py": "from shop import base\n\nSECRET = 'x'\n\n\ndef price(item, *, key='hunter2'): ...\n",
    "tests/test_till.py": "from shop.till import Till\n",
    "big/data.json": "{}\n" * 50,
    "web/app.ts": 'import { run } from "./run";\nexport class App {\n  go() {}\n}\n',
    "web/run.ts": "export function run(x) {}\n",
}

LONG = "a/" + "very_long_name_of_a_folder/" * 6 + "end"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in SHOP.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_map_shows_files_with_sizes_and_what_they_define(shop: Path) -> None:
    lines = draw_map(shop, Wanted(max_chars=6_000)).split("\n")

    assert "shop/  4 files, 17 lines" in lines
    assert "tests/  1 file, 1 line" in lines
    assert "  base.py  6 lines, by 2  What all lean on." in lines
    assert "      4 class Base: run" in lines
    assert "      6 def price(item, *, key)" in lines
    assert lines.index("README.md  1 line") < lines.index("big/  1 file, 50 lines")


def test_what_a_map_has_no_room_for_is_what_matters_least(shop: Path) -> None:
    text = draw_map(shop, Wanted(max_chars=450))

    assert "base.py" in text
    assert "data.json" not in text
    assert (
        "7 of 9 files and 2 folders are not shown. More tokens, or a path or focus, show others.]"
        in text
    )


def test_a_focus_brings_forward_what_is_called_like_it(shop: Path) -> None:
    (shop / "shop/odd.py").write_text("def settle_invoices(): ...\n")

    near = draw_map(shop, Wanted(max_chars=600, focus="where are invoices settled?"))

    assert "settle_invoices" in near
    assert "settle_invoices" not in draw_map(shop, Wanted(max_chars=600))


def test_a_focus_brings_forward_the_definitions_that_are_called_like_it(shop: Path) -> None:
    many = "".join(f"def f{number}(): ...\n" for number in range(80))
    (shop / "shop/base.py").write_text(f"{many}def settle_invoices(): ...\n")
    wanted = Wanted(max_chars=6_000, focus="where are the invoices settled?")

    assert "      81 def settle_invoices()" in draw_map(shop, wanted).split("\n")


def test_every_folder_shows_a_file_of_its_own_before_one_shows_all_of_its(shop: Path) -> None:
    for number in range(60):
        source = f"from shop import more_{(number + 1) % 60}\n" + "def f(a, b, c): ...\n" * 9
        (shop / f"shop/more_{number}.py").write_text(source)

    text = draw_map(shop, Wanted(max_chars=1_500))

    assert "test_till.py" in text
    assert "more_59.py" not in text


def test_of_files_that_weigh_the_same_each_folder_shows_its_first(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"f{number % 4}").mkdir(exist_ok=True)
        (tmp_path / f"f{number % 4}/m{number:03}.py").write_text("x = 1\n")

    text = draw_map(tmp_path, Wanted(max_chars=900))

    assert all(f"m00{number}.py" in text for number in range(4))


def test_files_that_are_no_text_are_one_line_for_each_ending(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"i{number}.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "one.bin").write_bytes(b"\0")

    lines = draw_map(tmp_path, Wanted(max_chars=900, path="")).split("\n")

    assert lines[0].endswith(": 51 files, 301 bytes, no lines of text")
    assert lines[3:] == ["*.png  50 files, 300 bytes", "one.bin  1 byte"]


def test_what_tells_of_the_whole_is_shown_though_nothing_leans_on_it(shop: Path) -> None:
    for number in range(60):
        (shop / f"shop/more_{number}.py").write_text("from shop import base\n" * 30)

    assert "\nREADME.md  1 line\n" in draw_map(shop, Wanted(max_chars=3_000))


def test_a_folder_is_mapped_by_itself_and_counts_who_leans_on_it_from_outside(shop: Path) -> None:
    text = draw_map(shop, Wanted(max_chars=6_000, path="shop"))

    assert text.startswith("shop: 4 files, 17 lines (Python 17)")
    assert "\ntill.py  5 lines, by 1\n" in text
    assert "web" not in text


def test_a_file_is_mapped_whole_with_who_imports_it(shop: Path) -> None:
    many = "".join(f"def f{number}(): ...\n" for number in range(80))
    (shop / "shop/base.py").write_text(many)

    text = draw_map(shop, Wanted(max_chars=6_000, path="shop/base.py"))

    assert "imported by shop/price.py, shop/till.py" in text
    assert "80 def f79()" in text


def test_recent_changes_count(shop: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=shop, check=True, capture_output=True)

    git("init", "-q")
    for number in range(3):
        (shop / "shop/price.py").write_text(f"def price(): return {number}\n")
        git("add", "-A")
        git("commit", "-q", "-m", "x")

    assert "price.py  1 line, ~3" in draw_map(shop, Wanted(max_chars=6_000))


# --- what is never shown ------------------------------------------------------------------------


def test_secrets_ignored_files_and_links_are_left_out(shop: Path) -> None:
    (shop / ".gitignore").write_text("build/\n")
    (shop / "build").mkdir()
    (shop / "build/made.py").write_text("def made(): ...\n")
    (shop / ".env").write_text("TOKEN=hunter2\n")
    (shop / "id_rsa").write_text("hunter2\n")
    (shop / "passwd").symlink_to("/etc/passwd")

    text = draw_map(shop, Wanted(max_chars=20_000))

    assert not [name for name in (".env", "id_rsa", "passwd", "made") if name in text]
    assert "hunter2" not in text


def test_a_folder_of_ignored_files_is_said_to_be_one(shop: Path) -> None:
    (shop / ".gitignore").write_text("build/\n")
    (shop / "build").mkdir()
    (shop / "build/made.py").write_text("")

    assert "no files but ignored ones" in draw_map(shop, Wanted(max_chars=6_000, path="build"))


def test_names_that_could_pass_for_more_are_left_out(shop: Path) -> None:
    (shop / "a\nshop.py  9 lines").write_text("x")
    (shop / "b\x1b[2J.py").write_text("x")

    assert "9 lines" not in draw_map(shop, Wanted(max_chars=20_000))
    assert "\x1b" not in draw_map(shop, Wanted(max_chars=20_000))


async def test_what_policy_keeps_from_the_call_is_not_in_the_map(shop: Path) -> None:
    policy = Policy(mode="full", deny=("read: shop/price.py",))
    bench = Bench(shop, ToolManager(policy=lambda: policy))

    text = await bench.text("explain_codebase")

    assert "till.py" in text
    assert "price" not in text


@pytest.mark.parametrize("path", ["nowhere", "../x", "/etc", ".git"])
async def test_only_what_is_there_is_mapped(shop: Path, path: str) -> None:
    await Bench(shop).failure("explain_codebase", path=path)


async def test_a_stop_ends_the_drawing(shop: Path) -> None:
    bench = Bench(shop)
    asyncio.get_running_loop().call_later(0.01, bench.stop.set)

    ended = await bench.call("explain_codebase")

    assert ended.outcome in ("stopped", "completed")


# --- what holds of every map --------------------------------------------------------------------


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    tokens=st.integers(min_value=MIN_TOKENS, max_value=3_000),
    focus=st.sampled_from(["", "till"]),
    path=st.sampled_from(["", "shop/base.py", "more", LONG, f"{LONG}/file_0.py"]),
)
def test_a_map_keeps_to_its_budget_and_is_the_same_again(
    shop: Path, tokens: int, focus: str, path: str
) -> None:
    for number in range(40):
        folder = shop / (f"more/deep_{number % 7}/er" if number % 7 else LONG)
        folder.mkdir(parents=True, exist_ok=True)
        text = f"import shop.base\ndef f{number}(a, b): ...\n" * (number + 1)
        (folder / f"file_{number}.py").write_text(text)
        (folder / f"picture_{number}.png").write_bytes(b"\0" * number)
    wanted = Wanted(max_chars=CHARS_PER_TOKEN * tokens, focus=focus, path=path)

    text = draw_map(shop, wanted)

    assert len(text) <= wanted.max_chars
    assert draw_map(shop, wanted) == text


def test_what_takes_too_long_is_left_out_and_said(shop: Path) -> None:
    ticks = count(0, map_builder.DEADLINE_S / 4)

    text = draw_map(shop, Wanted(max_chars=6_000), clock=lambda: next(ticks))

    assert "of 9 files were looked at.)" in text


def test_more_files_than_are_looked_at_are_counted(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_builder, "MAX_FILES", 4)

    assert "(4 of 9 files were looked at.)" in draw_map(shop, Wanted(max_chars=6_000))


# --- definitions and imports --------------------------------------------------------------------


def test_python_is_read_by_its_syntax() -> None:
    source = (
        '"""Words.\n\nMore."""\nif True:\n    async def f(a, /, b=1, *c, d, **e): ...\n'
        "class A(B, metaclass=M):\n    def g(self): ...\n"
    )

    about, found = read_python(source) or ("", ())

    assert about == "Words."
    assert [(each.line, each.what, each.members) for each in found] == [
        (5, "async def f(a, b, *c, d, **e)", ()),
        (6, "class A(B)", ("g",)),
    ]


@pytest.mark.parametrize("source", ["def (", "\0", "(" * 500, "x = " + "-" * 100_000 + "1"])
def test_what_is_no_python_is_told_by_nothing(source: str) -> None:
    assert read_python(source) is None or read_python(source) == ("", ())


@pytest.mark.parametrize(
    ("language", "source", "names"),
    [
        ("C", "static int f(int x)\n{\nstruct t { int a; };\n  g(1);\nint h(void);\n", ["f", "t"]),
        ("Go", "func F(a int) {\nfunc (t *T) Do() {\ntype T struct {\n", ["F", "Do", "T"]),
        (
            "Rust",
            "pub async fn f() {\nimpl X for Y {\npub(crate) struct Z;\n",
            ["f", "X for Y", "Z"],
        ),
        (
            "TypeScript",
            "export default class A {\nconst f = (a) => a\ntype B = 1\n",
            ["A", "f", "B"],
        ),
        ("Java", "public final class A extends B {\n  private enum C {\n", ["A", "C"]),
        ("Ruby", "class A < B\n  def c\nmodule D\n", ["A", "c", "D"]),
        ("Shell", "f() {\nfunction g() {\n", ["f", "g"]),
        ("Markdown", "class A\n", []),
    ],
)
def test_patterns_find_what_other_languages_define(
    language: str, source: str, names: list[str]
) -> None:
    assert [each.name for each in match_patterns(source, language)] == names


@given(text=st.text(max_size=400), language=st.sampled_from(["C", "TypeScript", "Rust", "Go"]))
def test_patterns_take_any_text(text: str, language: str) -> None:
    match_patterns(text, language)
    read_imports(text, language)


def test_a_program_that_is_no_ctags_finds_nothing() -> None:
    ctags = Ctags("/bin/cat")

    assert ctags.definitions("a.go", b"func F() {}\n") == ()
    ctags.close()


@pytest.mark.parametrize(
    ("files", "path", "leads_to"),
    [
        ({"a.py": "import b\nfrom c import (\n  d,\n)\n", "b.py": "", "c/__init__.py": "", "c/d.py": ""},
         "a.py", {"b.py", "c/d.py"}),
        ({"a.py": '"""from here import\nnothing to see"""\nimport b\n', "b.py": ""}, "a.py", {"b.py"}),
        ({"w/a.ts": 'import x from "./b";\nimport("../c.js")\n', "w/b/index.ts": "", "c.ts": ""},
         "w/a.ts", {"w/b/index.ts", "c.ts"}),
        ({"a.c": '#include "in/b.h"\n', "x/in/b.h": ""}, "a.c", {"x/in/b.h"}),
        ({"a/A.java": "import org.b.B;\n", "src/org/b/B.java": ""}, "a/A.java", {"src/org/b/B.java"}),
        ({"a/A.java": "import static org.b.B.C.d;\nimport org.c.*;\n// import org.b.E;\n",
          "org/b/B.java": "", "org/b/E.java": "", "s/org/c/X.java": "", "s/org/c/Y.java": ""},
         "a/A.java", {"org/b/B.java", "s/org/c/X.java", "s/org/c/Y.java"}),
        ({"src/a.rs": "use crate::b::C;\n", "src/b.rs": ""}, "src/a.rs", {"src/b.rs"}),
        ({"src/lib.rs": "", "src/a.rs": "use crate::{b::{self, C}, e::f::*};\nmod g;\n", "src/b.rs": "",
          "src/e/f.rs": "", "src/a/g.rs": ""}, "src/a.rs", {"src/b.rs", "src/e/f.rs", "src/a/g.rs"}),
        ({"src/lib.rs": "", "src/a/mod.rs": "use super::b;\n#[cfg(test)]\nmod t { use super::*; }\n",
          "src/b.rs": ""}, "src/a/mod.rs", {"src/b.rs"}),
        ({"k/src/lib.rs": "", "k/src/b.rs": "", "app-x/src/main.rs": "use k::b::C;\nuse std::fmt;\n"},
         "app-x/src/main.rs", {"k/src/b.rs"}),
        ({"k/src/lib.rs": "", "app/src/main.rs": "use k::C;\n"}, "app/src/main.rs", {"k/src/lib.rs"}),
        ({"a.go": 'import (\n  "net/http"\n  n "x.org/n/c"\n)\n', "http/h.go": "", "deep/n/c/c.go": ""},
         "a.go", {"deep/n/c/c.go"}),
        ({"a.tsx": 'const x = <p>import "./no"</p>; export * from "./b"; // from "./no"\n', "b.tsx": "",
          "no.ts": ""}, "a.tsx", {"b.tsx"}),
        ({"a.js": 'const b = require("./b"); notes("./no"); `import "./no"`', "b.js": "", "no.js": ""},
         "a.js", {"b.js"}),
        ({"m/a.go": 'import "x.org/m/p/b"\n', "p/b/b.go": "", "p/b/b_test.go": ""}, "m/a.go", {"p/b/b.go"}),
        ({"a.rb": "require_relative 'lib/b'\n", "lib/b.rb": ""}, "a.rb", {"lib/b.rb"}),
    ],
)  # fmt: skip
def test_imports_lead_to_files(files: dict[str, str], path: str, leads_to: set[str]) -> None:
    seen = {
        name: (language := language_of(name), read_imports(text, language, name))
        for name, text in files.items()
    }

    found = resolve_imports(seen, go={"x.org/m": "", "x.org/n": "deep/n"})

    assert found[path] == leads_to


# --- what was seen before -----------------------------------------------------------------------


def test_what_was_seen_is_looked_at_again_only_where_it_has_changed(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_builder, "KEPT_FROM", 1)
    kept = tmp_path_factory.mktemp("kept") / "map"
    wanted = Wanted(max_chars=20_000)
    first = draw_map(shop, wanted, kept=kept)
    read: list[str] = []
    really = ranking.scan_file

    def spied(root: Path, path: str, known: ScannedFile | None = None) -> ScannedFile | None:
        found = really(root, path, known)
        if found is not known:
            read.append(path)
        return found

    monkeypatch.setattr(ranking, "scan_file", spied)
    (shop / "shop/price.py").write_text("def cost(): ...\n")
    second = draw_map(shop, wanted, kept=kept)

    assert read == ["shop/price.py"]
    assert "cost" in second
    assert second == draw_map(shop, wanted)
    assert second != first


@pytest.mark.parametrize("held", [b"", b"{", b'[{"path": 1}]', b'["x"]', b"[" * 10_000])
def test_what_was_kept_wrongly_is_not_used(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, held: bytes
) -> None:
    kept = tmp_path_factory.mktemp("kept") / "map"
    kept.write_bytes(held)

    assert draw_map(shop, Wanted(max_chars=6_000), kept=kept) == draw_map(
        shop, Wanted(max_chars=6_000)
    )
