"""An engine's speed as TOML."""

import pytest

from loadkit.core import Sequence, Step, profile_from_toml


def test_a_profile_of_ones_own_costs_what_it_says() -> None:
    profile = profile_from_toml(
        "base_s = 0.02\nprefill_s_per_token = 40e-6\ndecode_s_per_seq = 1e-4\nkv_blocks = 100"
    )
    seq = Sequence("a", prompt_tokens=1000, output_tokens=5)
    step = Step(prefills=[(seq, 1000)], decodes=[seq], prefill_tokens=1000)
    assert profile.cost(step) == pytest.approx(0.04 + 1e-4)
    assert profile.cost(Step(decodes=[seq])) == pytest.approx(0.02 + 1e-4)
    assert profile.kv_blocks == 100


def test_what_is_left_out_costs_nothing() -> None:
    cost = profile_from_toml("base_s = 1\nkv_blocks = 1").cost
    assert (cost.prefill_s_per_token, cost.decode_s_per_seq, cost.swap_s_per_token) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base_s = 0.02", "kv_blocks"),
        ("base_s = 0.02\nkv_blocks = 1.5", "whole number"),
        ("base_s = 0.02\nkv_blocks = true", "kv_blocks must be a number"),
        ("kv_blocks = 10", "base_s"),
        ("base_s = 0\nkv_blocks = 10", "above 0"),
        ("base_s = -1\nkv_blocks = 10", "at least 0"),
        ("base_s = inf\nkv_blocks = 10", "at least 0"),
        ("base_s = nan\nkv_blocks = 10", "at least 0"),
        ('base_s = "20ms"\nkv_blocks = 10', "must be a number"),
        ("base_ms = 20\nkv_blocks = 10", "unknown key 'base_ms'; known: base_s"),
        ("base_s = ", "Invalid value"),
    ],
)
def test_a_bad_profile_is_an_error_that_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        profile_from_toml(text)
