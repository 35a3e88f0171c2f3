"""The drainer's pauses between attempts."""

from __future__ import annotations

from audit.drainer import LONGEST_BACK_OFF_S, back_off_s


def test_pauses_grow_and_stay_bounded_after_any_number_of_failures() -> None:
    for failures in range(1, 2_000):
        assert 0 < back_off_s(failures) <= LONGEST_BACK_OFF_S
    # Jitter halves a pause at most, so a pause that is four times longer stays longer.
    assert back_off_s(1) < back_off_s(3) < back_off_s(5) < back_off_s(8)
    assert back_off_s(1_000) >= LONGEST_BACK_OFF_S / 2


def test_pauses_differ_so_that_drainers_do_not_retry_together() -> None:
    assert len({back_off_s(3) for _ in range(20)}) > 1
