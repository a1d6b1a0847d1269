"""Numbers as people read them."""

import pytest

from loadkit.report import numbers

NBSP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (None, numbers.UNKNOWN),
        (0.0, "0 ms"), (0.000834, "834 µs"), (0.00431, "4.31 ms"), (0.0431, "43.1 ms"),
        (0.431, "431 ms"), (0.99951, "1.00 s"), (8.177, "8.18 s"), (75.0, "75.0 s"), (302.3, "302 s"),
        (754.0, "12.6 min"), (86_400.0, "24 h 0 min"),
    ],
)  # fmt: skip
def test_seconds_take_the_unit_that_reads_best(value_s: float | None, text: str) -> None:
    assert numbers.seconds(value_s).replace(NBSP, " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, numbers.UNKNOWN),
        (1.0, "100 %"),
        (0.99999, "> 99.9 %"),
        (0.0, "0 %"),
        (0.0001, "< 0.1 %"),
        (0.942, "94.2 %"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(value: float | None, text: str) -> None:
    assert numbers.share(value).replace(NBSP, " ") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00001, "0.0 %"), (-0.018, "-1.8 %"), (0.5, "+50.0 %")]
)
def test_a_difference_has_a_sign_unless_it_is_none(value: float, text: str) -> None:
    assert numbers.signed_share(value).replace(NBSP, " ") == text
