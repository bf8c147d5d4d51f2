"""The words all packages share: what an error says as a whole, and the mode, written `type:name`."""

import pytest

from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.names import Mode


@pytest.mark.parametrize(
    ("what", "whole"),
    [
        ("Incorrect API key provided (401)", "Incorrect API key provided (401). Check it."),
        ("It is gone.", "It is gone. Check it."),
        ("Which one?", "Which one? Check it."),
        ("It said “no.”", "It said “no.” Check it."),
        ("It said “no”", "It said “no”. Check it."),
        ("", "Check it."),
    ],
)
def test_what_happened_and_what_to_do_are_two_sentences(what: str, whole: str) -> None:
    assert str(MidstreamError(what, hint="Check it.")) == whole


def test_without_a_hint_it_is_as_it_was_said() -> None:
    assert str(MidstreamError("provided (401)")) == "provided (401)"


@pytest.mark.parametrize("text", ["role:dude", "workflow:code_architecture_review", "role:a:b c"])
def test_a_mode_reads_back_as_it_was_written(text: str) -> None:
    assert str(Mode.parse(text)) == text


def test_blanks_around_a_mode_do_not_count() -> None:
    assert Mode.parse(" role:dude\n") == Mode("role", "dude")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dude", "'dude' is not a mode. Did you mean 'role:dude' or 'workflow:dude'?"),
        ("rol:dude", "'rol:dude' is not a mode: no type 'rol'. Did you mean 'role:dude'?"),
        (
            "x:dude",
            "'x:dude' is not a mode: no type 'x'. Write role:NAME or workflow:NAME, such as role:dude.",
        ),
        (
            "role:",
            "'role:' is not a mode: '' cannot be a name. "
            "Write role:NAME or workflow:NAME, such as role:dude.",
        ),
        (
            "workflow:../x",
            "'workflow:../x' is not a mode: '../x' cannot be a name. "
            "Write role:NAME or workflow:NAME, such as role:dude.",
        ),
        ("", "'' is not a mode. Write role:NAME or workflow:NAME, such as role:dude."),
    ],
)
def test_what_is_no_mode_is_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(UserMistake) as refusal:
        Mode.parse(text)

    assert str(refusal.value) == said
