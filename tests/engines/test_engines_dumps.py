"""What real engines sent, as recorded: the values a person reads in the recordings."""

import re
from pathlib import Path

import pytest

from loadkit.engines import Reply, StreamReader, Usage, outcome, read_body
from loadkit.engines.detect import detect_engine
from loadkit.engines.metrics import parse_metrics

DUMPS = Path(__file__).parents[3] / "shared" / "data" / "engine_dumps"
pytestmark = pytest.mark.skipif(not DUMPS.is_dir(), reason="the recorded engine output is not here")


def payload(name: str) -> bytes:
    """The body behind the HTTP head."""
    return re.split(rb"\r?\n\r?\n", (DUMPS / name).read_bytes(), maxsplit=1)[1]


def streamed(name: str) -> Reply:
    reader = StreamReader("chat" if "chat" in name else "completions")
    for stamp, line in enumerate(payload(name).splitlines(keepends=True)):
        reader.feed(float(stamp), line)
    return reader.finish()


@pytest.mark.parametrize(
    ("name", "chunks", "usage", "finish_reason"),
    [
        ("vllm_sse_completions.txt", 3, Usage(4, 8, 0), "length"),
        ("vllm_sse_chat.txt", 3, Usage(7, 8, 0), "length"),
        ("vllm_sse_continuous_usage.txt", 4, Usage(4, 4, 0), "length"),
        ("sgl_sse_completions.txt", 4, Usage(4, 6, None), "length"),
        ("sgl_sse_chat.txt", 2, Usage(5, 4, None), "length"),
        ("llama_sse_completions.txt", 4, Usage(3, 6, 0), "length"),
        ("llama_sse_chat.txt", 2, Usage(4, 4, 0), "length"),
        ("tfs_sse_completions.txt", 4, Usage(4, 6, None), "length"),
        ("tfs_sse_chat.txt", 3, Usage(5, 6, None), "length"),
    ],
)
def test_streams_that_went_well(name: str, chunks: int, usage: Usage, finish_reason: str) -> None:
    reply = streamed(name)
    assert len(reply.content_stamps_s) == chunks
    assert (reply.usage, reply.finish_reason, reply.malformed_events) == (usage, finish_reason, 0)
    assert outcome(200, reply, {}, usage.output_tokens).status == "ok"


def test_vllm_tells_queue_and_prefill_and_its_request_id() -> None:
    reply = streamed("vllm_sse_completions.txt")
    assert reply.timings.queue_wait_s == pytest.approx(0.0343540e-3)
    assert reply.timings.prefill_s == pytest.approx(15.177003e-3)
    assert reply.response_id == "cmpl-client-abc-1"


def test_llamacpp_tells_its_prefill_and_no_queue_wait() -> None:
    reply = streamed("llama_sse_chat.txt")
    assert reply.timings.prefill_s == pytest.approx(0.358e-3)
    assert reply.timings.queue_wait_s is None


def test_sglangs_own_route_tells_queue_wait_and_retractions() -> None:
    reply = read_body("completions", (DUMPS / "sgl_generate_metainfo.json").read_bytes())
    assert reply.timings.queue_wait_s == pytest.approx(0.299879e-3)
    assert reply.timings.preemptions == 0
    assert reply.timings.prefill_s == pytest.approx(0.00995, rel=0.01)


def test_transformers_sends_no_done_and_is_complete() -> None:
    reply = streamed("tfs_sse_completions.txt")
    assert not reply.done
    assert outcome(200, reply, {}, 6).status == "ok"


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        ("sgl_sse_rejected.txt", "rejected", "503: The request queue is full."),
        ("llama_sse_kv_exhausted_1.txt", "stream_error", "500: Context size has been exceeded."),
        ("vllm_sse_engine_killed.txt", "stream_error", "500: EngineCore encountered an issue."),
    ],
)
def test_streams_that_failed_with_status_200(name: str, status: str, error: str) -> None:
    got = outcome(200, streamed(name), {})
    assert got.status == status
    assert str(got.error).startswith(error)


def test_two_choices_without_streaming() -> None:
    reply = read_body("completions", payload("vllm_n2.txt").splitlines()[-1])
    assert reply.usage == Usage(4, 6, 0)
    assert reply.has_content


@pytest.mark.parametrize(
    ("name", "engine", "expected"),
    [
        (
            "vllm_metrics_under_load.txt",
            "vllm",
            {"requests_running": 5, "requests_waiting": 10, "generation_tokens_total": 2302},
        ),
        (
            "vllm_metrics_after_preempt.txt",
            "vllm",
            {
                "preemptions_total": 25,
                "kv_blocks": 48,
                "kv_block_tokens": 32,
                "prompt_tokens_total": 849,
            },
        ),
        (
            "sgl_metrics_under_load.txt",
            "sglang",
            {"requests_running": 4, "requests_waiting": 28, "kv_usage_ratio": 0.57},
        ),
        (
            "sgl_metrics_after_retract.txt",
            "sglang",
            {"generation_tokens_total": 4800, "prompt_tokens_total": 817, "kv_blocks": 1500},
        ),
        (
            "llama_metrics_under_load.txt",
            "llamacpp",
            {"requests_running": 2, "requests_waiting": 6, "generation_tokens_total": 600},
        ),
    ],
)
def test_metrics(name: str, engine: str, expected: dict[str, float]) -> None:
    text = (DUMPS / name).read_text()
    assert detect_engine(metrics=text) == engine
    found = parse_metrics(engine, text)
    assert found.problem is None
    values = {sample.name: sample.value for sample in found.samples}
    assert {name: values[name] for name in expected} == expected
