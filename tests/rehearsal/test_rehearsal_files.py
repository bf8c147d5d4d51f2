"""The file of a rehearsal: what is written is read again; what is wrong is said, with its place."""

import pytest

from midstream.language.errors import AuthorMistake, UserMistake
from midstream.rehearsal.format import (
    Called,
    Expected,
    ModelReplied,
    Rehearsal,
    ToolReturned,
    UserSaid,
    decoded,
    encoded,
)
from midstream.rehearsal.playback import Point, point_named

SMALL = Rehearsal(
    rehearsal=1,
    workflow="greet",
    input="hi",
    steps=(
        ModelReplied(
            agent="host",
            state="start",
            text="é",
            calls=(Called(name="look", arguments={"a": [1]}),),
        ),
        ToolReturned(tool="look", arguments={"a": [1]}, result="nothing"),
        UserSaid(text="hurry", state="start", after_handlers=1),
    ),
    expected=Expected(status="finished", states=("start", "stop"), output={"deep": [None, 1.5]}),
)


def test_what_is_written_is_read_again() -> None:
    assert decoded(encoded(SMALL)) == SMALL


def test_comments_and_trailing_commas_of_people_are_read_over() -> None:
    written = encoded(SMALL).decode()
    by_hand = "// greets\n" + written.replace('"input": "hi",', '"input": "hi", /* a word */')
    by_hand = by_hand.rstrip().removesuffix("}") + ",}\n"

    assert decoded(by_hand.encode()) == SMALL


def test_the_file_is_for_people_a_step_at_a_time_and_defaults_left_out() -> None:
    text = encoded(SMALL).decode()
    assert '      "what": "model_replied",\n      "agent": "host",' in text
    assert '"text": "é"' in text
    assert "policy" not in text
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "r.json is no rehearsal"),
        ("[]", "r.json is no rehearsal"),
        ('{"workflow": "x"}', "missing required field `rehearsal`"),
        ('{"rehearsal": 2, "later": true}', "has the format 2; this midstream reads format 1"),
        ('{"rehearsal": 1, "workflow": "x", "steps": []}', "missing required field `expected`"),
        (
            '{"rehearsal": 1, "workflow": "x", "steps": [{"what": "model_sang"}], "expected": {}}',
            "$.steps[0].what",
        ),
        (
            '{"rehearsal": 1, "workflow": "x", "steps": '
            '[{"what": "user_said", "text": "a", "txet": "b"}], "expected": {}}',
            "`txet` - at `$.steps[0]`",
        ),
        (
            '{"rehearsal": 1, "workflow": "x", "steps": [], '
            '"expected": {"status": "done", "states": []}}',
            "$.expected.status",
        ),
    ],
)
def test_a_file_that_is_wrong_says_where(text: str, says: str) -> None:
    with pytest.raises(AuthorMistake) as caught:
        decoded(text.encode(), file="r.json")
    assert says in caught.value.what
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "kill:17",
        "kill:17:lost",
        "interrupt:4:flying",
        "both:3:flying",
        "kill:1:lost+aside:2:flying",
    ],
)
def test_a_point_is_found_by_its_name(name: str) -> None:
    assert str(point_named(name)) == name


def test_a_point_without_a_moment_is_right_after_its_fact_was_kept() -> None:
    assert point_named("kill:17") == Point(kind="kill", seq=17, moment="kept")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "kill",
        "kill:x",
        "hit:1",
        "kill:1:later",
        "kill:²",
        "kill:1+",
        "kill:1+kill:0",
        "kill:1+both:2:flying",
    ],
)
def test_what_names_no_point_is_refused(name: str) -> None:
    with pytest.raises(UserMistake):
        point_named(name)
