"""When a request is tried again."""

from midstream.models.provider_errors import Backoff


def test_waits_grow_up_to_their_ceiling() -> None:
    backoff = Backoff(attempts=9, first_s=1.0, factor=3.0, ceiling_s=20.0)

    waits = [backoff.wait_s(n, retry_after_s=None, chance=1.0) for n in range(1, 6)]

    assert waits == [1.0, 3.0, 9.0, 20.0, 20.0]


def test_chance_spreads_a_wait_over_its_second_half() -> None:
    backoff = Backoff(first_s=1.0)

    assert backoff.wait_s(1, retry_after_s=None, chance=0.0) == 0.5
    assert backoff.wait_s(1, retry_after_s=None, chance=0.5) == 0.75


def test_the_last_attempt_is_the_last() -> None:
    assert Backoff(attempts=3).wait_s(3, retry_after_s=1.0, chance=0.0) is None


def test_a_provider_is_never_asked_before_it_said() -> None:
    assert Backoff().wait_s(1, retry_after_s=12.0, chance=0.0) == 12.0
    assert (Backoff().wait_s(1, retry_after_s=12.0, chance=1.0) or 0) > 12.0


def test_asking_for_too_much_patience_ends_the_attempts() -> None:
    assert Backoff(longest_s=60.0).wait_s(1, retry_after_s=61.0, chance=0.0) is None
