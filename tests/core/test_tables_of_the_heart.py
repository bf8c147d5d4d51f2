"""The two tables of the heart have a row for everything there is: nothing that happens is unheard."""

from typing import get_args

from midstream.core.decide.decide import JUDGES
from midstream.core.events import AnyFact
from midstream.core.fold.apply import FOLDS
from midstream.core.inputs import AnyInput


def test_every_fact_is_folded() -> None:
    assert FOLDS.keys() == set(get_args(AnyFact))


def test_every_input_is_judged() -> None:
    assert JUDGES.keys() == set(get_args(AnyInput))
