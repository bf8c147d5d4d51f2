"""What an error says as a whole."""

import pytest

from midstream.language.errors import MidstreamError


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
