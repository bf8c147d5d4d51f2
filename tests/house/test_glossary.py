"""One word for one thing: the glossary's terms are those in use, and words that had none are gone."""

import re
from collections.abc import Iterator
from pathlib import Path

from house_kit import ROOT, check, text_of

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
    if path.name not in ("glossary.md", "CHANGELOG.md")
]
ROWS = re.findall(r"^\| (\*\*.+?) \| (.+) \|$", text_of(GLOSSARY), re.MULTILINE)

PRIVATE = re.compile(
    r"\b(desks?|doorbells?|shel(f|ves)|narrators?|postm[ae]n|faces?|rooms|a letter (is|was))\b",
    re.IGNORECASE,
)
"""What the code once called sessions, wake-up sockets, blob stores, renderers, UIs, modules."""


def prose(page: Path) -> str:
    """Return a page without what is code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def test_each_term_is_said_in_one_sentence() -> None:
    assert len(ROWS) > 50
    assert [term for term, meaning in ROWS if ". " in meaning or len(meaning) > 200] == []


def test_each_term_is_in_use() -> None:
    terms = [term for row, _ in ROWS for term in re.findall(r"\*\*`?(.+?)`?\*\*", row)]
    words = re.sub(r"\s+", " ", "\n".join(map(text_of, PAGES))).lower()
    assert len({*terms}) == len(terms)
    assert [term for term in terms if not re.search(rf"\b{re.escape(term.lower())}", words)] == []


def test_no_page_has_words_of_its_own_for_what_has_a_name() -> None:
    def rule(page: Path) -> Iterator[str]:
        for found in PRIVATE.finditer(prose(page)):
            yield f" {found[0]}"

    check(rule, PAGES)
