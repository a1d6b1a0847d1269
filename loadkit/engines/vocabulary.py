"""Which exposed metric names mean which canonical metric, per engine and across versions.

A metric is never guessed from a similar name: `_perc` is a fraction in vLLM, `iteration_tokens_total`
is a histogram, and vLLM's `time_per_output_token_seconds` is the gap between tokens.
"""

from collections.abc import Mapping
from typing import NamedTuple

from loadkit.model import ServerMetric as M


class Source(NamedTuple):
    """One exposed series name, in lower-case words joined by underscores (`vllm:x` = `vllm_x`)."""

    name: str
    where: tuple[str, str] | None = None
    """Only series with this label and value."""
    label: str | None = None
    """The value is that of this label, not that of the sample."""


Sources = tuple[tuple[Source, ...], ...]
"""Alternatives, best first: the first one present is used. The sources of one are added up."""
Vocabulary = Mapping[M, Sources]


def _any(*names: str) -> Sources:
    return tuple((Source(name),) for name in names)


def _counter(*names: str) -> Sources:
    """Counters are exposed with `_total`, except through some exporters."""
    return _any(*(name + suffix for name in names for suffix in ("_total", "")))


def _sum(*names: str) -> Sources:
    return (tuple(Source(name) for name in names),)


_VLLM: Vocabulary = {
    M.REQUESTS_RUNNING: _any("vllm_num_requests_running"),
    M.REQUESTS_WAITING: _any("vllm_num_requests_waiting"),
    M.KV_USAGE_RATIO: _any("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"),
    M.PREEMPTIONS_TOTAL: _counter("vllm_num_preemptions"),
    M.PROMPT_TOKENS_TOTAL: _counter("vllm_prompt_tokens"),
    M.GENERATION_TOKENS_TOTAL: _counter("vllm_generation_tokens"),
    M.CACHED_TOKENS_TOTAL: _counter(
        "vllm_prompt_tokens_cached", "vllm_prefix_cache_hits", "vllm_gpu_prefix_cache_hits"
    ),
    M.RECOMPUTED_TOKENS_TOTAL: _counter("vllm_prompt_tokens_recomputed"),
    M.REQUESTS_FINISHED_TOTAL: _counter("vllm_request_success"),
    M.REJECTIONS_TOTAL: _counter("vllm_admission_rejections"),
    M.QUEUE_TIME_SECONDS_SUM: _any("vllm_request_queue_time_seconds_sum"),
    M.QUEUE_TIME_SECONDS_COUNT: _any("vllm_request_queue_time_seconds_count"),
    M.PREFILL_TIME_SECONDS_SUM: _any("vllm_request_prefill_time_seconds_sum"),
    M.PREFILL_TIME_SECONDS_COUNT: _any("vllm_request_prefill_time_seconds_count"),
    M.TTFT_SECONDS_SUM: _any("vllm_time_to_first_token_seconds_sum"),
    M.TTFT_SECONDS_COUNT: _any("vllm_time_to_first_token_seconds_count"),
    M.E2E_SECONDS_SUM: _any("vllm_e2e_request_latency_seconds_sum"),
    M.E2E_SECONDS_COUNT: _any("vllm_e2e_request_latency_seconds_count"),
    M.STEP_TOKENS_SUM: _any("vllm_iteration_tokens_total_sum"),
    M.STEP_TOKENS_COUNT: _any("vllm_iteration_tokens_total_count"),
    M.KV_BLOCKS: ((Source("vllm_cache_config_info", label="num_gpu_blocks"),),),
    M.KV_BLOCK_TOKENS: ((Source("vllm_cache_config_info", label="block_size"),),),
}

_SGLANG: Vocabulary = {
    M.REQUESTS_RUNNING: _any("sglang_num_running_reqs"),
    M.REQUESTS_WAITING: _any("sglang_num_queue_reqs"),
    M.KV_USAGE_RATIO: _any("sglang_token_usage"),
    M.PREEMPTIONS_TOTAL: _counter("sglang_num_retracted_requests"),
    M.PROMPT_TOKENS_TOTAL: _counter("sglang_prompt_tokens"),
    M.GENERATION_TOKENS_TOTAL: _counter("sglang_generation_tokens"),
    M.CACHED_TOKENS_TOTAL: _counter("sglang_cached_tokens"),
    M.RECOMPUTED_TOKENS_TOTAL: _sum(
        "sglang_num_retracted_input_tokens_total", "sglang_num_retracted_output_tokens_total"
    ),
    M.REQUESTS_FINISHED_TOTAL: _counter("sglang_num_requests"),
    M.ABORTS_TOTAL: _counter("sglang_num_aborted_requests"),
    M.QUEUE_TIME_SECONDS_SUM: _any("sglang_queue_time_seconds_sum"),
    M.QUEUE_TIME_SECONDS_COUNT: _any("sglang_queue_time_seconds_count"),
    M.PREFILL_TIME_SECONDS_SUM: (
        (Source("sglang_per_stage_req_latency_seconds_sum", ("stage", "prefill_forward")),),
    ),
    M.PREFILL_TIME_SECONDS_COUNT: (
        (Source("sglang_per_stage_req_latency_seconds_count", ("stage", "prefill_forward")),),
    ),
    M.TTFT_SECONDS_SUM: _any("sglang_time_to_first_token_seconds_sum"),
    M.TTFT_SECONDS_COUNT: _any("sglang_time_to_first_token_seconds_count"),
    M.E2E_SECONDS_SUM: _any("sglang_e2e_request_latency_seconds_sum"),
    M.E2E_SECONDS_COUNT: _any("sglang_e2e_request_latency_seconds_count"),
    M.KV_BLOCKS: (
        (Source("sglang_num_pages"),),
        (Source("sglang_cache_config_info", label="num_pages"),),
    ),
    M.KV_BLOCK_TOKENS: (
        (Source("sglang_page_size"),),
        (Source("sglang_cache_config_info", label="page_size"),),
    ),
}

_LLAMACPP: Vocabulary = {
    M.REQUESTS_RUNNING: _any("llamacpp_requests_processing"),
    M.REQUESTS_WAITING: _any("llamacpp_requests_deferred"),
    M.KV_USAGE_RATIO: _any("llamacpp_kv_cache_usage_ratio"),
    # Its prompt counter leaves the cached tokens out, unlike every other engine's.
    M.PROMPT_TOKENS_TOTAL: _sum(
        "llamacpp_prompt_tokens_total", "llamacpp_prompt_tokens_cached_total"
    ),
    M.GENERATION_TOKENS_TOTAL: _any("llamacpp_tokens_predicted_total"),
    M.CACHED_TOKENS_TOTAL: _any("llamacpp_prompt_tokens_cached_total"),
}

_TGI: Vocabulary = {
    M.REQUESTS_RUNNING: _any("tgi_batch_current_size"),
    M.REQUESTS_WAITING: _any("tgi_queue_size"),
    M.REQUESTS_FINISHED_TOTAL: _counter("tgi_request_success"),
    M.REJECTIONS_TOTAL: (
        (Source("tgi_request_failure", ("err", "overloaded")),),
        (Source("tgi_request_failure_total", ("err", "overloaded")),),
    ),
    M.ABORTS_TOTAL: (
        (Source("tgi_request_failure", ("err", "dropped")),),
        (Source("tgi_request_failure_total", ("err", "dropped")),),
    ),
    M.PROMPT_TOKENS_TOTAL: _any("tgi_request_input_length_sum"),
    M.GENERATION_TOKENS_TOTAL: _any("tgi_request_generated_tokens_sum"),
    M.QUEUE_TIME_SECONDS_SUM: _any("tgi_request_queue_duration_sum"),
    M.QUEUE_TIME_SECONDS_COUNT: _any("tgi_request_queue_duration_count"),
    M.E2E_SECONDS_SUM: _any("tgi_request_duration_sum"),
    M.E2E_SECONDS_COUNT: _any("tgi_request_duration_count"),
}

# The emulator speaks vLLM's names, and its own where vLLM has none or does not split by lane.
_EMULATOR: Vocabulary = {
    **_VLLM,
    M.REQUESTS_RUNNING: _any("loadkit_lane_requests_running", "vllm_num_requests_running"),
    M.REQUESTS_WAITING: _any("loadkit_lane_requests_waiting", "vllm_num_requests_waiting"),
    M.PREEMPTIONS_TOTAL: _counter("loadkit_lane_preemptions", "vllm_num_preemptions"),
    M.REJECTIONS_TOTAL: _counter("loadkit_lane_rejections", "vllm_admission_rejections"),
    M.RECOMPUTED_TOKENS_TOTAL: _counter("loadkit_recomputed_tokens"),
    M.ABORTS_TOTAL: _counter("loadkit_aborts"),
    M.MAX_NUM_SEQS: _any("loadkit_max_num_seqs"),
    M.MAX_NUM_BATCHED_TOKENS: _any("loadkit_max_num_batched_tokens"),
    M.CLOCK_LATENESS_S: _any("loadkit_clock_lateness_seconds"),
    M.CLOCK_LATENESS_MAX_S: _any("loadkit_clock_lateness_max_seconds"),
}

VOCABULARIES: Mapping[str, Vocabulary] = {
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "llamacpp": _LLAMACPP,
    "tgi": _TGI,
    "loadkit-emulator": _EMULATOR,
}
"""Per engine; an engine that is not here exposes nothing that is known."""
