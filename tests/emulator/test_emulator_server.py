"""The server as a client sees it, held against its own ledger and counters."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median

import pytest
from emulator_client import Answer, ask, get, open_stream, post, samples, wait_for
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from conftest import RunningEmulator, StartEmulator, start_emulator
from loadkit.cli import app
from loadkit.errors import InputError

TINY = ("--profile", "tiny")
STEADY = ("--profile", "steady")  # 20 ms a step


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """One server for the tests that leave nothing behind, its model 128 tokens long."""
    server = start_emulator(tmp_path_factory.mktemp("tiny"), (*TINY, "--max-model-len", "128"))
    yield server
    server.stop()


def test_a_stream_read_from_a_plain_socket_agrees_with_the_ledger(emulator: StartEmulator) -> None:
    server = emulator(*STEADY)
    answers = {
        f"r{n}": post(server.port, ask(20, prompt=100), X_Request_Id=f"r{n}") for n in range(5)
    }
    ledger = server.ledger()
    lags_s = []
    for name, answer in answers.items():
        row = ledger[name]
        assert answer.tokens == [" w0", " w1", *(f" w{n}" for n in range(2, 20))]
        assert (row["status"], row["prompt_tokens"], row["output_tokens"]) == ("finished", 100, 20)
        assert len(row["token_s"]) == 20
        order = [row["arrival_s"], row["queued_s"], row["first_scheduled_s"], *row["token_s"]]
        assert order == sorted(order)
        gaps_s = [b - a for a, b in pairwise(row["token_s"])]
        assert sum(gaps_s) / len(gaps_s) == pytest.approx(0.020, rel=0.15)
        # The first piece that came holds the first token.
        lags_s += [answer.stamps_s[0] - row["token_s"][0], answer.stamps_s[-1] - row["finish_s"]]
    # What left came later, and not long after. Each stamp may be late by what another process took.
    assert -0.001 < median(lags_s) < 0.2


def test_stream_and_whole_answers_of_both_routes_count_alike(tiny: RunningEmulator) -> None:
    chat = {"messages": [{"role": "user", "content": "Hello, world!"}], "max_tokens": 3}
    options = {"stream_options": {"include_usage": True}, "stream": True}
    streamed = post(tiny.port, {**chat, **options}, "/v1/chat/completions")
    whole = post(tiny.port, chat, "/v1/chat/completions").json
    # 4 tokens of text, 4 around the message, 3 for the reply to come.
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    for found in (streamed.events[-2]["usage"], whole["usage"]):
        assert {key: found[key] for key in usage} == usage
    assert streamed.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert streamed.events[-1] == "[DONE]"
    assert streamed.events[-3]["choices"][0]["finish_reason"] == "length"
    assert "".join(streamed.tokens) == whole["choices"][0]["message"]["content"] == " w0 w1 w2"
    assert post(tiny.port, chat, "/tokenize").json["count"] == 11

    text = post(tiny.port, ask(4, prompt=7, stream=False), X_Request_Id="me")
    assert text.json["choices"][0]["text"] == " w0 w1 w2 w3"
    assert (text.json["id"], text.headers["x-request-id"]) == ("cmpl-me", "me")
    assert text.json["usage"]["prompt_tokens"] == 7
    assert post(tiny.port, {"prompt": text.json["choices"][0]["text"]}, "/tokenize").json[
        "count"
    ] == len(text.json["choices"][0]["text"].split())
    plain = post(tiny.port, {"prompt": [1], "max_tokens": 2, "stream": True})
    assert [event for event in plain.events if "usage" in event] == []


def test_running_usage_counts_every_chunk(tiny: RunningEmulator) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = post(tiny.port, ask(3, prompt=5, stream_options=options))
    counts = [event["usage"]["completion_tokens"] for event in answer.events[:-1]]
    assert counts == [1, 2, 3, 3]


def test_an_http_1_0_client_gets_the_stream_without_chunk_framing(tiny: RunningEmulator) -> None:
    body = b'{"prompt":[1],"max_tokens":2,"ignore_eos":true,"stream":true}'
    with socket.create_connection(("127.0.0.1", tiny.port), 10) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        received = b""
        while piece := sock.recv(65_536):
            received += piece
    _, _, stream = received.partition(b"\r\n\r\n")
    assert stream.startswith(b"data: {")
    assert stream.endswith(b"data: [DONE]\n\n")


def test_preemptions_agree_in_counter_ledger_and_answers(emulator: StartEmulator) -> None:
    # 20 blocks of 16: four sequences that grow to 150 tokens need 40.
    server = emulator(*TINY, "--kv-blocks", "20", "--no-prefix-cache", "--slots", "8")
    with ThreadPoolExecutor(4) as pool:
        asks = [
            pool.submit(post, server.port, ask(100, prompt=50), X_Request_Id=f"r{n}")
            for n in range(4)
        ]
        answers = {f"r{n}": done.result() for n, done in enumerate(asks)}
    counters = samples(server.port)
    rows = server.ledger()
    assert counters["vllm:num_preemptions_total"] > 0
    assert counters["vllm:num_preemptions_total"] == sum(r["preemptions"] for r in rows.values())
    assert counters["loadkit:recomputed_tokens_total"] == sum(
        r["recomputed_tokens"] for r in rows.values()
    )
    assert counters["vllm:prompt_tokens_total"] == 200
    assert counters["vllm:generation_tokens_total"] == 400
    for name, answer in answers.items():
        assert len(answer.tokens) == 100
        assert answer.metrics["num_preemptions"] == rows[name]["preemptions"]
        assert answer.metrics["recomputed_tokens"] == rows[name]["recomputed_tokens"]
        queue_s = rows[name]["first_scheduled_s"] - rows[name]["queued_s"]
        assert answer.metrics["queue_time_ms"] == pytest.approx(queue_s * 1e3, abs=1e-3)


def test_a_disconnect_frees_slot_and_blocks_at_once(emulator: StartEmulator) -> None:
    server = emulator(*STEADY)
    sock = open_stream(server.port, ask(500), "gone")
    assert samples(server.port)["vllm:num_requests_running"] == 1
    sock.close()
    wait_for(server.port, "vllm:num_requests_running", 0)
    counters = samples(server.port)
    assert counters["vllm:kv_cache_usage_perc"] == 0
    # As in vLLM a client that went away is in no finished count; ours is apart.
    assert (counters["vllm:request_success_total"], counters["loadkit:aborts_total"]) == (0, 1)
    row = server.ledger()["gone"]
    assert row["status"] == "cancelled"
    assert 0 < row["output_tokens"] < 500


def test_a_waiting_client_that_leaves_gives_up_its_place(emulator: StartEmulator) -> None:
    server = emulator(*STEADY, "--slots", "1")
    first = open_stream(server.port, ask(500), "first")
    with pytest.raises(TimeoutError):
        _post_briefly(server.port)
    wait_for(server.port, "vllm:num_requests_waiting", 0)
    first.close()


def _post_briefly(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.2)
    try:
        connection.request("POST", "/v1/completions", json.dumps(ask(2, stream=False)))
        connection.getresponse()
    finally:
        connection.close()


@pytest.mark.parametrize("status", [503, 429])
def test_a_full_queue_refuses_before_the_stream_begins(
    emulator: StartEmulator, status: int
) -> None:
    server = emulator(*STEADY, "--slots", "1", "--max-queue", "1", "--busy-status", str(status))
    sock = open_stream(server.port, ask(300), "running")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, server.port, ask(2))
        wait_for(server.port, "vllm:num_requests_waiting", 1)
        refused = post(server.port, ask(2), X_Request_Id="refused")
        sock.close()
        assert waiting.result().status == 200
    assert refused.status == refused.json["error"]["code"] == status
    assert int(refused.headers["retry-after"]) >= 1
    assert samples(server.port)["vllm:admission_rejections_total"] == 1
    row = server.ledger()["refused"]
    assert (row["status"], row["http_status"], row["token_s"]) == ("rejected", status, [])


def test_priority_overtakes_in_the_queue(emulator: StartEmulator) -> None:
    server = emulator(*STEADY, "--slots", "1", "--policy", "priority")
    sock = open_stream(server.port, ask(300), "running")
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(post, server.port, ask(2, priority=5), X_Request_Id="batch")
        wait_for(server.port, "vllm:num_requests_waiting", 1)
        header = {
            "X_Loadkit_Priority": "-1",
            "X_Request_Id": "urgent",
            "X_Loadkit_Lane": "chat%2F1",
        }
        soon = pool.submit(post, server.port, ask(2), **header)
        wait_for(server.port, "vllm:num_requests_waiting", 2)
        assert samples(server.port)["loadkit:lane_requests_waiting"] == 2
        sock.close()
        late.result()
        soon.result()
    rows = server.ledger()
    assert rows["urgent"]["first_scheduled_s"] < rows["batch"]["first_scheduled_s"]
    assert (rows["urgent"]["lane"], rows["urgent"]["priority"]) == ("chat/1", -1)


def test_what_has_not_started_by_its_deadline_is_given_up(emulator: StartEmulator) -> None:
    server = emulator(*STEADY, "--slots", "1", "--drop-expired")
    sock = open_stream(server.port, ask(400), "running")
    late = {"X_Loadkit_Deadline_S": "0.1"}
    streamed = post(server.port, ask(2), X_Request_Id="late", **late)
    whole = post(server.port, ask(2, stream=False), **late)
    sock.close()
    assert streamed.events[0]["error"]["code"] == 504
    assert "deadline" in streamed.events[0]["error"]["message"]
    assert streamed.events[1] == "[DONE]"
    assert whole.status == 504
    assert server.ledger()["late"]["status"] == "expired"


def test_a_repeated_prompt_is_found_in_the_prefix_cache_unless_salted(
    emulator: StartEmulator,
) -> None:
    server = emulator(*TINY)

    def cached(**more: object) -> int:
        usage = post(server.port, ask(1, prompt=64, stream=False, **more)).json["usage"]
        count: int = usage["prompt_tokens_details"]["cached_tokens"]
        return count

    # 64 tokens are 4 blocks; the last token is always computed, so 3 blocks can be shared.
    assert [cached(), cached(), cached(cache_salt="a"), cached(cache_salt="a")] == [0, 48, 0, 48]
    assert samples(server.port)["vllm:prefix_cache_hits_total"] == 96


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not valid JSON"),
        (b"[]", 400, "JSON object"),
        ({"prompt": "a", "model": "other"}, 404, "`other` does not exist"),
        (ask(prompt=128), 400, "maximum context length is 128 tokens"),
        ({"prompt": [1, "a"]}, 400, "token ids"),
        ({"prompt": [-1]}, 400, "token ids"),
        ({"prompt": ""}, 400, "prompt"),
        ({}, 400, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "a", "max_tokens": True}, 400, "max_tokens"),
        ({"prompt": "a", "n": 2}, 400, "n=1"),
        ({"prompt": "a", "stream_options": 3}, 400, "stream_options"),
        ({"prompt": "a", "min_tokens": 20}, 400, "min_tokens"),
    ],
)
def test_bad_requests_get_the_engines_error_body(
    tiny: RunningEmulator, body: object, status: int, words: str
) -> None:
    answer = post(tiny.port, body)
    assert answer.status == answer.json["error"]["code"] == status
    assert words in answer.json["error"]["message"]


def test_unknown_paths_and_methods_are_json_errors(tiny: RunningEmulator) -> None:
    assert (get(tiny.port, "/nope").status, get(tiny.port, "/v1/completions").status) == (
        404,
        405,
    )
    assert get(tiny.port, "/v1/models").json["data"][0]["max_model_len"] == 128
    bad = post(tiny.port, ask(), X_Loadkit_Deadline_S="soon")
    assert (bad.status, bad.json["error"]["param"]) == (400, "X-Loadkit-Deadline-S")


def test_output_is_clipped_to_the_models_length(tiny: RunningEmulator) -> None:
    assert post(tiny.port, ask(1000, prompt=60, stream=False)).json["usage"]["total_tokens"] == 128


def test_a_wrong_key_is_told_as_vllm_does_and_never_logged(
    emulator: StartEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMULATOR_TEST_KEY", "s3cret-of-the-test")
    server = emulator(*TINY, "--api-key-env", "EMULATOR_TEST_KEY")
    assert post(server.port, ask()).status == 401
    assert post(server.port, ask(), Authorization="Bearer nope").json == {"error": "Unauthorized"}
    assert post(server.port, ask(), Authorization="Bearer s3cret-of-the-test").status == 200
    assert get(server.port, "/health").status == 200
    server.stop()
    for path in server.ledger_path.parent.iterdir():
        assert b"s3cret" not in path.read_bytes()


def test_sigterm_cuts_streams_flushes_the_ledger_and_exits_cleanly(emulator: StartEmulator) -> None:
    server = emulator(*STEADY)
    sock = open_stream(server.port, ask(500), "cut")
    started_s = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started_s < 5
    sock.close()
    assert server.ledger()["cut"]["status"] == "reset"
    log = (server.ledger_path.parent / "log").read_text()
    assert log.splitlines() == [server.url]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--policy", "magic"), "fifo, fcfs"),
        (("--profile", "magic"), "h100-8b"),
        (("--profile", "no-such.toml"), "no-such.toml: cannot be read"),
        (("--profile", "pyproject.toml"), "known: base_s"),
        (("--kv-blocks", "2", "--max-model-len", "100"), "KV blocks"),
        (("--no-chunked-prefill", "--chunk-size", "5"), "--chunk-size"),
        (("--fault", "stall:at=5"), "not a duration"),
        (("--busy-status", "500"), "429"),
        (("--api-key-env", "LOADKIT_NO_SUCH_VARIABLE"), "LOADKIT_NO_SUCH_VARIABLE"),
        (("--ledger", "/no/such/folder/ledger"), "/no/such/folder/ledger"),
    ],
)
def test_bad_usage_names_the_option_and_what_would_do(options: tuple[str, ...], words: str) -> None:
    error = CliRunner().invoke(app, ["emulate", *options]).exception
    assert isinstance(error, InputError)
    assert error.exit_code == 2
    assert words in f"{error.message} {error.hint}"


def test_a_taken_port_is_said(tiny: RunningEmulator) -> None:
    error = CliRunner().invoke(app, ["emulate", "--port", str(tiny.port)]).exception
    assert isinstance(error, InputError)
    assert "cannot listen" in error.message


def test_metrics_read_with_the_prometheus_parser(emulator: StartEmulator) -> None:
    server = emulator(*TINY)
    answers: list[Answer] = [post(server.port, ask(10), X_Loadkit_Lane="batch") for _ in range(3)]
    assert all(len(answer.tokens) == 10 for answer in answers)
    text = get(server.port, "/metrics").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    itl = {
        s.name + s.labels.get("le", ""): s.value
        for s in families["vllm:inter_token_latency_seconds"].samples
    }
    assert itl["vllm:inter_token_latency_seconds_count"] == 27
    assert itl["vllm:inter_token_latency_seconds_bucket+Inf"] == 27
    lanes = {
        s.labels.get("lane"): s.value
        for s in families["loadkit:lane_queue_time_seconds"].samples
        if s.name.endswith("_count")
    }
    assert lanes["batch"] == 3
    info = families["vllm:cache_config_info"].samples[0].labels
    assert (info["block_size"], info["num_gpu_blocks"]) == ("16", "4096")
