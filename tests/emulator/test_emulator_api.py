"""Requests and tokens without a server."""

import re
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.emulator import tokens
from loadkit.emulator.api import ApiError, Ask, parse
from loadkit.emulator.histogram import Histogram


def asked(fields: dict[str, object], **headers: str) -> Ask:
    api = "chat" if "messages" in fields else "completions"
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse(api, orjson.dumps(fields), names, "m", 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("one", 1),
        ("one two", 2),
        ("Hello, world!", 4),
        ("a\n\n b", 2),
        ("1.5", 3),
        ("日本 語", 2),
    ],
)
def test_text_counts_a_token_per_word_and_per_sign(text: str, count: int) -> None:
    assert len(tokens.from_text(text).tokens) == count


@given(st.integers(0, 3000))
def test_every_word_the_engine_says_is_one_token(number: int) -> None:
    said = "".join(tokens.WORDS[n % len(tokens.WORDS)].decode() for n in range(number))
    assert len(tokens.from_text(said).tokens) == number == len(said.split())
    assert re.fullmatch(r"( w\d+)*", said)


def test_equal_prefixes_have_equal_hashes_up_to_where_they_differ() -> None:
    one = tokens.from_ids(list(range(40)))
    two = tokens.from_ids([*range(32), *range(100, 108)])
    hashes = [tokens.block_hashes(prompt, 16, None) for prompt in (one, two)]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 2
    three = tokens.from_ids([99, *range(1, 40)])
    assert not set(tokens.block_hashes(three, 16, None)) & set(hashes[0])
    assert not set(tokens.block_hashes(one, 16, "salt")) & set(hashes[0])


def test_an_exact_length_is_kept_and_a_free_one_is_always_the_same() -> None:
    exact = asked({"prompt": [1, 2], "max_tokens": 900, "ignore_eos": True})
    assert (exact.output_tokens, exact.finish_reason) == (900, "length")
    free = [asked({"prompt": "tell me", "max_tokens": 900}) for _ in range(2)]
    assert free[0].output_tokens == free[1].output_tokens
    assert 16 <= free[0].output_tokens <= 527
    assert free[0].finish_reason == "stop"
    least = asked({"prompt": "tell me", "max_tokens": 900, "min_tokens": 800})
    assert least.output_tokens == 800


def test_defaults_are_those_of_vllm() -> None:
    assert asked({"prompt": [1]}).max_tokens == 16
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi there"}]}]
    chat = asked({"messages": messages})
    assert chat.max_tokens == 1000 - (2 + 4 + 3)
    assert (
        asked({"messages": messages, "max_tokens": 5, "max_completion_tokens": 7}).max_tokens == 7
    )


def test_the_body_has_the_last_word_on_priority() -> None:
    fields: dict[str, object] = {"prompt": [1]}
    assert asked(fields, X_Loadkit_Priority="3").priority == 3
    assert asked({**fields, "priority": -2}, X_Loadkit_Priority="3").priority == -2
    assert asked(fields).priority == 0


def test_lane_tenant_and_deadline_come_from_headers() -> None:
    ask = asked(
        {"prompt": [1]},
        X_Loadkit_Lane="n%C3%A4he",
        X_Loadkit_Tenant="a" * 500,
        X_Loadkit_Deadline_S="1.5",
    )
    assert (ask.lane, ask.tenant, ask.deadline_in_s) == ("nähe", "a" * 128, 1.5)
    assert asked({"prompt": [1]}, X_Loadkit_Lane="a\udcff").lane == "a?"
    for bad in ("nan", "inf", "soon", "1e99"):
        with pytest.raises(ApiError):
            asked({"prompt": [1]}, X_Loadkit_Deadline_S=bad)


@given(st.binary(max_size=60))
def test_no_body_raises_anything_but_an_api_error(body: bytes) -> None:
    with suppress(ApiError):
        parse("completions", body, {}, "m", 1000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = [
    "prompt",
    "messages",
    "max_tokens",
    "min_tokens",
    "stream",
    "stream_options",
    "n",
    "priority",
    "cache_salt",
    "model",
]


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
    st.sampled_from(["chat", "completions"]),
)
def test_no_field_of_a_wrong_type_raises_anything_but_an_api_error(
    fields: dict[str, object], api: str
) -> None:
    with suppress(ApiError):
        ask = parse(api, orjson.dumps(fields), {}, "m", 1000)  # type: ignore[arg-type]
        assert 1 <= ask.output_tokens <= ask.max_tokens <= 1000


def test_a_histogram_counts_a_value_on_a_bound_into_that_bucket() -> None:
    """Prometheus: le = less than or equal."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.total == 8.0
