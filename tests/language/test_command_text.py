"""What a written command sends: its places filled in once, its head read as others write it."""

from tables import table

from midstream.language.command_text import joined, parts
from midstream.language.role_text import head_of

FILLED = {
    "all of it": ("Fix $ARGUMENTS now.", "a  b", "Fix a  b now."),
    "words by number": ("$2 before $1", "one two", "two before one"),
    "a word that is not there": ("[$3]", "one two", "[]"),
    "words in quotes are one": ("$1|$2", "\"a b\" 'c d'", "a b|c d"),
    "what is put in is not filled in again": ("$1 $2", "$2 x", "$2 x"),
    "money is no place": ("costs $100, $ARGUMENTSX", "", "costs $100, $ARGUMENTSX"),
    "no place: below": ("Review it.\n", "src", "Review it.\n\nsrc"),
    "nothing typed": ("Review it.\n", " ", "Review it."),
    "a lone quote is a letter": ("$1", "it's", "it's"),
}


@table(("text", "typed", "sent"), FILLED.values(), ids=FILLED)
def test_what_was_typed_is_put_in_its_places(text: str, typed: str, sent: str) -> None:
    assert joined(parts(text, typed), ()) == sent


HEADS = {
    "none": ("Hello\n---\n", {}, "Hello\n---\n"),
    "never ended": ("---\nname: a\n", {}, "---\nname: a\n"),
    "words": (
        "---\nname: a\nargument-hint: [FILE]\n---\nb",
        {"name": "a", "argument-hint": "[FILE]"},
        "b",
    ),
    "quotes": ("---\na: \"x: y\"\nb: 'z'\n---\n", {"a": "x: y", "b": "z"}, ""),
    "folded": ("---\na: >-\n  one\n  two\nb: c\n---\n", {"a": "one two", "b": "c"}, ""),
    "a list below its key": ("---\na:\n  - x\n---\n", {"a": "- x"}, ""),
    "what is no line of a head": ("---\n# a remark\n???\na: b\n---\n", {"a": "b"}, ""),
    "lines of Windows": ("---\r\na: b\r\n---\r\nc", {"a": "b"}, "c"),
}


@table(("text", "head", "below"), HEADS.values(), ids=HEADS)
def test_a_head_is_read_as_words(text: str, head: dict[str, str], below: str) -> None:
    assert head_of(text) == (head, below)
