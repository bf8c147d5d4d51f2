"""Files named in a line: where a mention stands, how it is written, and what fits it best."""

import pytest

from midstream.core.mentions import asked_for, best, mention_before, mention_of, mentioned


@pytest.mark.parametrize(
    ("before", "mention"),
    [
        ("@", "@"),
        ("@src", "@src"),
        ("look at @src/ap", "@src/ap"),
        ("look at (@src", "@src"),
        ("one\n@two", "@two"),
        ('see @"two wor', '@"two wor'),
        ("see @src ", None),
        ("mail me@example.org", None),
        ("plain", None),
        ("", None),
    ],
)
def test_a_mention_stands_at_the_end_of_what_is_typed(before: str, mention: str | None) -> None:
    assert mention_before(before) == mention


@pytest.mark.parametrize(
    ("path", "mention"),
    [("src/app.py", "@src/app.py"), ("two words.txt", '@"two words.txt"'), ("a,b", '@"a,b"')],
)
def test_a_path_is_mentioned_so_that_it_is_read_back(path: str, mention: str) -> None:
    assert mention_of(path) == mention
    assert asked_for(mention.removesuffix('"') if '"' in mention else mention) == path
    assert mention_before(f"see {mention}".removesuffix('"')) == mention.removesuffix('"')


PATHS = (
    "README.md",
    "docs/",
    "docs/reader.md",
    "src/",
    "src/app.py",
    "src/core/spread.py",
    "src/core/read.py",
    "src/readme/other.py",
    "tests/test_app.py",
)


def test_names_that_are_or_begin_with_the_query_come_first_then_those_that_hold_it() -> None:
    assert best(PATHS, "read", limit=5) == [
        "src/core/read.py",
        "README.md",
        "docs/reader.md",
        "src/core/spread.py",
        "src/readme/other.py",
    ]


def test_letters_in_their_order_are_enough() -> None:
    assert best(PATHS, "scsp", limit=3) == ["src/core/spread.py"]
    assert best(PATHS, "tstap", limit=3) == ["tests/test_app.py"]


def test_upper_case_is_told_apart_only_where_it_is_typed() -> None:
    assert best(PATHS, "READ", limit=3) == ["README.md"]
    assert "README.md" in best(PATHS, "readm", limit=3)


def test_nothing_typed_yet_shows_what_is_nearest_hidden_files_last() -> None:
    paths = [".github/", ".github/ci.yml", *PATHS]

    assert best(paths, "", limit=4) == ["README.md", "docs/", "src/", ".github/"]


def test_what_fits_nothing_finds_nothing() -> None:
    assert best(PATHS, "zzz", limit=3) == []
    assert best([], "a", limit=3) == []
    assert best(["a[b].py", "a^b.py"], "[^", limit=3) == []
    assert best(["a[b].py", "a-^b.py"], "-^", limit=3) == ["a-^b.py"]


def test_an_accent_may_be_part_of_its_letter_or_follow_it() -> None:
    apart = "docs/re\u0301sume\u0301.md"
    assert best([apart, "x"], "r\xe9s", limit=5) == [apart]
    assert best([apart, "x"], "re\u0301sum", limit=5) == [apart]
    assert best([apart, "x"], "d\xe9\xe9", limit=5) == [apart]


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("@shot.png what is this", ["shot.png"]),
        ("see (@a.png, @b.png); @'c'.", ["a.png", "b.png", "'c"]),
        ('@"two words.png" and @img/x.png.', ["two words.png", "img/x.png"]),
        ("me@example.org a@b", []),
        ("@ @. @,", []),
        ("first\n@second.png", ["second.png"]),
    ],
)
def test_a_mention_is_found_without_the_stop_of_its_sentence(line: str, paths: list[str]) -> None:
    found = [*mentioned(line)]

    assert [path for _, _, path in found] == paths
    for start, end, path in found:
        assert line[start:end] in (f"@{path}", f'@"{path}"')
