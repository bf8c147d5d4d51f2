"""The files of the page: nothing that makes markup or code of text."""

import re

from house_kit import HOUSE, check, text_of

PAGE = HOUSE / "web" / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
STYLES = sorted(PAGE.glob("*.css"))
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|parseHTML"
    r"|setHTML|srcdoc|\beval\b|\bFunction\(|javascript:|set(?:Timeout|Interval)\([\"'`]|cssText"
)
"""What makes elements or code of a text."""
ELSEWHERE = re.compile(
    r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}|@import|url\((?!#)"
)


def test_what_others_wrote_becomes_text_and_nothing_else() -> None:
    assert len(SCRIPTS) > 5
    check(lambda path: MARKUP.findall(text_of(path)), SCRIPTS)
    # Styles and handlers written into the markup are what the policy of the server refuses.
    page = text_of(PAGE / "index.html")
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?![^>]*\ssrc=)", page)


def test_the_page_brings_all_it_needs() -> None:
    check(lambda path: ELSEWHERE.findall(text_of(path)), [*SCRIPTS, *STYLES, PAGE / "index.html"])
    named = set(re.findall(r"/static/([\w.]+)", text_of(PAGE / "index.html")))
    for script in SCRIPTS:
        named |= set(re.findall(r"from \"\./([\w.]+)\"", text_of(script)))
    assert named == {path.name for path in PAGE.iterdir()} - {"index.html"}


def test_every_id_a_script_looks_for_stands_in_the_page() -> None:
    there = set(re.findall(r"\bid=\"([\w-]+)\"", text_of(PAGE / "index.html")))
    check(
        lambda path: sorted(set(re.findall(r"\bat\(\"([\w-]+)\"\)", text_of(path))) - there),
        SCRIPTS,
    )


def test_the_page_stays_small_enough_to_be_read() -> None:
    assert sum(len(text_of(path).splitlines()) for path in SCRIPTS) < 2000
