"""Prompts: exact in units, unique by default, shared where the trace says so."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.model import Send
from loadkit.prompts import (
    POOL_UNITS,
    TOKEN_ID_RANGES,
    WORDS,
    Calibration,
    PromptMaker,
    calibrate_text,
    one_token_per_word,
)

TOKEN_IDS = Calibration("token_ids")


def send(name: str, tokens: int, **more: object) -> Send:
    return Send(name, 0.0, "interactive", tokens, 5, **more)  # type: ignore[arg-type]


def ids(maker: PromptMaker, request: Send) -> list[int]:
    value = json.loads(maker.json_for(request))
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize("id_range", TOKEN_ID_RANGES)
@given(tokens=st.integers(1, 3000))
def test_token_id_prompts_have_exactly_the_planned_length(
    id_range: tuple[int, int], tokens: int
) -> None:
    prompt = ids(
        PromptMaker(Calibration("token_ids", id_range=id_range), "salt"), send("a", tokens)
    )

    assert len(prompt) == tokens
    assert all(id_range[0] <= token < id_range[1] for token in prompt)


@pytest.mark.parametrize("tokens", [POOL_UNITS - 1, POOL_UNITS + 7, 3 * POOL_UNITS + 1])
def test_a_prompt_longer_than_the_pool_still_has_its_length(tokens: int) -> None:
    assert len(ids(PromptMaker(TOKEN_IDS, "salt"), send("a", tokens))) == tokens


@given(st.integers(20, 2000), st.floats(0.8, 5.0), st.integers(0, 40))
def test_text_prompts_hit_the_planned_length_under_their_calibration(
    tokens: int, tokens_per_word: float, template: int
) -> None:
    tokens += template
    maker = PromptMaker(Calibration("text", tokens_per_word, template), "salt")

    words = json.loads(maker.json_for(send("a", tokens))).split()

    assert abs(len(words) * tokens_per_word + template - tokens) <= tokens_per_word / 2 + 1e-6


def test_text_is_plain_ascii_words_that_need_no_escape() -> None:
    text = PromptMaker(Calibration("text"), "salt").json_for(send("a", 500))

    assert re.fullmatch(rb'"[a-z]{4}( [a-z]{4})*"', text)
    assert len(WORDS) == len(set(WORDS))
    assert {len(word) for word in WORDS} == {4}


def test_different_requests_and_different_runs_share_no_first_block_of_16() -> None:
    maker, other = PromptMaker(TOKEN_IDS, "run 1"), PromptMaker(TOKEN_IDS, "run 2")
    starts = [tuple(ids(maker, send(f"r{i}", 64))[:16]) for i in range(2000)]
    starts += [tuple(ids(other, send(f"r{i}", 64))[:16]) for i in range(2000)]

    assert len(set(starts)) == 4000


def test_the_same_run_makes_the_same_prompt_again() -> None:
    assert ids(PromptMaker(TOKEN_IDS, "s"), send("a", 99)) == ids(
        PromptMaker(TOKEN_IDS, "s"), send("a", 99)
    )


def test_each_turn_of_a_session_extends_the_turn_before() -> None:
    maker = PromptMaker(TOKEN_IDS, "salt")

    first, second = (ids(maker, send(f"t{i}", n, session="s")) for i, n in enumerate((300, 900)))

    assert second[:300] == first


def test_equal_prefix_ids_share_their_tokens_and_nothing_behind_them() -> None:
    maker = PromptMaker(TOKEN_IDS, "salt")
    a = ids(maker, send("a", 1200, prefix_ids=(1, 2), prefix_block=512, prefix_ns="n"))
    b = ids(maker, send("b", 1200, prefix_ids=(1, 9), prefix_block=512, prefix_ns="n"))
    elsewhere = ids(maker, send("c", 1200, prefix_ids=(1, 2), prefix_block=512, prefix_ns="m"))

    assert a[:512] == b[:512]
    assert a[512:520] != b[512:520]
    assert a[1024:1030] != b[1024:1030]
    assert a[:8] != elsewhere[:8]


def test_prefix_blocks_longer_than_the_prompt_are_cut() -> None:
    assert (
        len(ids(PromptMaker(TOKEN_IDS, "s"), send("a", 700, prefix_ids=(1, 2), prefix_block=512)))
        == 700
    )


def test_one_probe_settles_an_engine_that_makes_one_token_of_a_word() -> None:
    assert one_token_per_word(256, 256 + 9)
    assert calibrate_text([(256, 265)]) == Calibration("text", 1.0, 9)


def test_two_probes_settle_any_line() -> None:
    """A byte-level model: 5 tokens a word, one space less, a template of 12."""
    assert not one_token_per_word(256, 1291)

    calibration = calibrate_text([(256, 5 * 256 - 1 + 12), (64, 5 * 64 - 1 + 12)])

    assert (calibration.tokens_per_unit, calibration.overhead_tokens) == (5.0, 11)
