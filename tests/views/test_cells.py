"""Two columns of words on a terminal of any width."""

from midstream.views.cells import two_columns

ROWS = [("Enter", "send the line as it stands"), ("", ""), ("/a-rather-long-name NAME", "do it")]


def test_beside_each_other_where_there_is_room() -> None:
    assert two_columns(ROWS, width=60) == (
        "Enter               send the line as it stands\n\n/a-rather-long-name NAME\n"
        "                    do it"
    )


def test_one_behind_the_other_where_there_is_not() -> None:
    assert two_columns(ROWS, width=30) == (
        "Enter: send the line as it\n  stands\n\n/a-rather-long-name NAME: do\n  it"
    )


def test_nothing_is_wider_than_it_may_be() -> None:
    for width in range(20, 200):
        assert max(map(len, two_columns(ROWS, width=width).splitlines())) <= width


def test_no_rows_are_no_text() -> None:
    assert two_columns([], width=80) == ""
