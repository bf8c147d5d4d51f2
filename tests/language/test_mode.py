"""The mode string `type:name`."""

import pytest

from midstream.language.errors import UserMistake
from midstream.language.names import Mode


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
