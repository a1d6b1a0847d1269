"""Bodies, headers and detection."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.engines import (
    ENGINES,
    encode_body,
    engine_priority,
    lane_headers,
    request_headers,
    request_path,
)
from loadkit.engines.detect import detect_engine
from loadkit.errors import InputError
from loadkit.model import Target


def body(engine: str, api: str = "completions", prompt: object = "hi", **kwargs: object) -> object:
    fields: dict[str, object] = {"model": "m", "output_tokens": 7, **kwargs}
    prompt_json = json.dumps(prompt).encode()
    return json.loads(encode_body(ENGINES[engine], api, prompt_json=prompt_json, **fields))  # type: ignore[arg-type]


def test_vllm_pins_the_output_length_and_asks_for_usage() -> None:
    assert body("vllm", prompt=[1, 2, 3], priority=5) == {
        "model": "m",
        "prompt": [1, 2, 3],
        "max_tokens": 7,
        "min_tokens": 7,
        "ignore_eos": True,
        "priority": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_transformers_and_plain_openai_get_no_field_they_may_refuse() -> None:
    assert body("transformers", priority=5) == {
        "model": "m",
        "prompt": "hi",
        "max_tokens": 7,
        "stream": True,
    }
    assert set(body("openai", priority=5)) == {  # type: ignore[call-overload]
        "model",
        "prompt",
        "max_tokens",
        "stream",
        "stream_options",
    }


def test_a_chat_prompt_is_one_user_message_and_streaming_can_be_off() -> None:
    assert body("llamacpp", "chat", prompt='a "b" €', stream=False) == {
        "model": "m",
        "messages": [{"role": "user", "content": 'a "b" €'}],
        "max_tokens": 7,
        "ignore_eos": True,
        "stream": False,
    }


def test_priority_is_turned_round_where_higher_means_sooner() -> None:
    """Ours: lower = sooner. vLLM agrees, SGLang does not, llama.cpp has none."""
    assert engine_priority(ENGINES["vllm"], -3) == -3
    assert engine_priority(ENGINES["sglang"], -3) == 3
    assert engine_priority(ENGINES["llamacpp"], -3) is None


@pytest.mark.parametrize(
    ("engine", "api"), [("vllm", "chat"), ("tgi", "completions"), ("openai", "completions")]
)
def test_token_ids_are_refused_where_they_cannot_go(engine: str, api: str) -> None:
    with pytest.raises(InputError, match="token ids"):
        body(engine, api, prompt=[1, 2])


@given(st.text(), st.text())
def test_any_prompt_and_model_come_through_unchanged(prompt: str, model: str) -> None:
    try:
        (prompt + model).encode()
    except UnicodeEncodeError:
        return
    got = body("sglang", "chat", prompt=prompt, model=model)
    assert got["messages"][0]["content"] == prompt  # type: ignore[index]
    assert got["model"] == model  # type: ignore[index]


def test_paths() -> None:
    assert request_path("completions") == "/v1/completions"
    assert request_path("chat") == "/v1/chat/completions"


def test_the_key_and_extra_headers_come_from_the_environment() -> None:
    target = Target("http://x", api_key_env="KEY", headers={"X-A": "a $B ${B}$$"})
    assert request_headers(target, {"KEY": "sk-1\n", "B": "b"}) == {
        "Content-Type": "application/json",
        "Authorization": "Bearer sk-1",
        "X-A": "a b b$",
    }


@pytest.mark.parametrize(
    ("target", "environ", "said"),
    [
        (Target("http://x", api_key_env="KEY"), {}, "KEY is not set"),
        (Target("http://x", api_key_env="KEY"), {"KEY": " "}, "KEY is not set"),
        (Target("http://x", headers={"X-A": "$NOPE"}), {}, "NOPE is not set"),
        (Target("http://x", headers={"X-A": "5 $"}), {}, "names no variable"),
        (Target("http://x", headers={"X A": "1"}), {}, "name of a header"),
        (Target("http://x", headers={"X-A": "$B"}), {"B": "s3cret\r\nX-B: 1"}, "line break"),
        (Target("http://x", api_key_env="KEY"), {"KEY": "s3cret€"}, "line break"),
    ],
)
def test_a_header_that_cannot_be_built_says_which_and_shows_no_secret(
    target: Target, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        request_headers(target, environ)
    assert "s3cret" not in caught.value.message + caught.value.hint


def test_lane_headers_carry_what_is_known_in_plain_ascii() -> None:
    assert lane_headers("batch") == {"X-Loadkit-Lane": "batch"}
    assert lane_headers("a/b", "Łódź\r\n", 0, 2.5) == {
        "X-Loadkit-Lane": "a/b",
        "X-Loadkit-Tenant": "%C5%81%C3%B3d%C5%BA%0D%0A",
        "X-Loadkit-Priority": "0",
        "X-Loadkit-Deadline-S": "2.500",
    }


@pytest.mark.parametrize(
    ("facts", "engine"),
    [
        ({"models": {"data": [{"id": "m", "owned_by": "vllm"}]}}, "vllm"),
        ({"models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}}, "llamacpp"),
        ({"models": {"data": [{"id": "m", "owned_by": "sglang"}]}}, "sglang"),
        ({"models": {"data": [{"id": "m", "owned_by": "loadkit"}]}}, "loadkit-emulator"),
        ({"models": {"data": [{"id": "m", "owned_by": "acme"}]}}, None),
        ({"server": "llama.cpp"}, "llamacpp"),
        ({"server": "uvicorn"}, None),
        ({"metrics": "vllm:x 1\nloadkit:clock_lateness_s 0\n"}, "loadkit-emulator"),
        ({"metrics": "# HELP\nray_vllm_num_requests_running 1\n"}, "vllm"),
        ({"metrics": "tgi_queue_size 1\n"}, "tgi"),
        ({"openapi": {"paths": {"/load_model": {}}}}, "transformers"),
        ({"models": "x", "openapi": [], "metrics": "{}"}, None),
        ({"models": {"data": [None, {"id": 5}]}}, None),
        ({}, None),
    ],
)
def test_the_engine_is_told_by_what_it_says_of_itself(
    facts: dict[str, object], engine: str | None
) -> None:
    assert detect_engine(**facts) == engine  # type: ignore[arg-type]
