"""Prometheus text of each engine and version to canonical samples; what is absent stays absent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.engines.metrics import absent, parse_metrics
from loadkit.model import ServerMetric


def totals(engine: str, text: str) -> dict[str, float]:
    """Sum over label sets: by the promise of the module, the server's total."""
    summed: dict[str, float] = {}
    for sample in parse_metrics(engine, text).samples:
        summed[sample.name] = summed.get(sample.name, 0.0) + sample.value
    return summed


VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 5.0
vllm:num_requests_running{engine="1",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 10.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 10.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.85
vllm:num_preemptions_total{engine="0",model_name="tiny"} 25.0
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.79e+09
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="tiny"} 1500.0
vllm:iteration_tokens_total_count{engine="0",model_name="tiny"} 1697.0
vllm:iteration_tokens_total_sum{engine="0",model_name="tiny"} 7283.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 2.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 20.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="tiny"} 0.5
vllm:cache_config_info{block_size="32",engine="0",num_gpu_blocks="48",num_cpu_blocks="None"} 1.0
"""


def test_vllm() -> None:
    assert totals("vllm", VLLM) == {
        "requests_running": 8.0,
        "requests_waiting": 10.0,
        "kv_usage_ratio": 0.85,
        "preemptions_total": 25.0,
        "requests_finished_total": 22.0,
        "queue_time_seconds_sum": 0.5,
        "step_tokens_sum": 7283.0,
        "step_tokens_count": 1697.0,
        "kv_blocks": 48.0,
        "kv_block_tokens": 32.0,
    }


def test_useful_labels_stay_sorted_and_the_others_go() -> None:
    text = 'vllm:num_requests_running{pid="7",model_name="m",engine="0"} 1\n'
    (sample,) = parse_metrics("vllm", text).samples
    assert sample.labels == '{"engine":"0","model_name":"m"}'


@pytest.mark.parametrize(
    "name",
    ["vllm:num_preemptions_total", "vllm:num_preemptions", "ray_vllm_num_preemptions_total"],
)
def test_a_counter_is_known_with_and_without_total_and_through_ray(name: str) -> None:
    assert totals("vllm", f'{name}{{model_name="m",ReplicaId="a"}} 3\n') == {
        "preemptions_total": 3.0
    }


def test_old_and_new_names_side_by_side_are_not_added_up() -> None:
    text = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.5\n"
    text += "vllm:gpu_prefix_cache_hits_total 7\nvllm:prefix_cache_hits_total 7\n"
    assert totals("vllm", text) == {"kv_usage_ratio": 0.5, "cached_tokens_total": 7.0}
    assert totals("vllm", "vllm:gpu_cache_usage_perc 0.5\n") == {"kv_usage_ratio": 0.5}


SGLANG = """\
sglang:num_running_reqs{model_name="m",priority="",tp_rank="0",pp_rank="0"} 7.0
sglang:num_running_reqs{model_name="m",priority="0",tp_rank="0",pp_rank="0"} 5.0
sglang:num_running_reqs{model_name="m",priority="10",tp_rank="0",pp_rank="0"} 2.0
sglang:num_running_reqs{model_name="m",priority="",tp_rank="1",pp_rank="0"} 7.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.57
sglang:prompt_tokens_total{is_streaming="true",model_name="m",priority="10"} 800.0
sglang:prompt_tokens_total{is_streaming="false",model_name="m",priority="10"} 17.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 30.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 10.0
sglang:cached_tokens_total{cache_source="total",model_name="m"} 40.0
sglang:num_retracted_requests_total{model_name="m"} 4.0
sglang:num_retracted_input_tokens_total{model_name="m"} 100.0
sglang:num_retracted_output_tokens_total{model_name="m"} 50.0
sglang:per_stage_req_latency_seconds_sum{model_name="m",stage="request_process"} 9.0
sglang:per_stage_req_latency_seconds_sum{model_name="m",stage="prefill_forward"} 0.6
sglang:fwd_occupancy{model_name="m"} NaN
sglang:num_queue_reqs{model_name="m"} NaN
"""


def test_sglang_without_counting_a_total_beside_its_parts() -> None:
    assert totals("sglang", SGLANG) == {
        "requests_running": 7.0,
        "kv_usage_ratio": 0.57,
        "prompt_tokens_total": 817.0,
        "cached_tokens_total": 40.0,
        "preemptions_total": 4.0,
        "recomputed_tokens_total": 150.0,
        "prefill_time_seconds_sum": 0.6,
    }


def test_data_parallel_ranks_add_up() -> None:
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{rank}",tp_rank="{rank}"}} {rank + 1}\n'
        for rank in (0, 1)
    )
    assert totals("sglang", text) == {"requests_running": 3.0}


def test_llamacpp_counts_the_cached_part_of_prompts_apart() -> None:
    text = "llamacpp:prompt_tokens_total 508\nllamacpp:prompt_tokens_cached_total 92\n"
    text += "llamacpp:requests_deferred 6\nllamacpp:tokens_predicted_total 600\n"
    assert totals("llamacpp", text) == {
        "prompt_tokens_total": 600.0,
        "cached_tokens_total": 92.0,
        "requests_waiting": 6.0,
        "generation_tokens_total": 600.0,
    }


def test_tgi_tells_refusals_by_a_label() -> None:
    text = 'tgi_request_failure{err="overloaded"} 3\ntgi_request_failure{err="validation"} 9\n'
    assert totals("tgi", text) == {"rejections_total": 3.0}


def test_the_emulators_lanes_replace_the_total_that_they_split() -> None:
    text = """\
vllm:num_requests_running{model_name="m"} 9
loadkit:lane_requests_running{lane="interactive"} 6
loadkit:lane_requests_running{lane="batch"} 3
loadkit:clock_lateness_seconds 0.002
vllm:num_preemptions_total 4
loadkit:lane_preemptions_total{lane="batch",reason="slot_for_urgent"} 3
loadkit:lane_preemptions_total{lane="batch",reason="out_of_blocks"} 1
vllm:admission_rejections_total{reason="max_num_queued_reqs"} 7
loadkit:lane_rejections_total{lane="batch",reason="queue_full"} 5
loadkit:lane_rejections_total{lane="interactive",reason="queue_full"} 2
"""
    found = parse_metrics("loadkit-emulator", text).samples
    lanes = {json.loads(s.labels).get("lane"): s.value for s in found if "running" in s.name}
    assert lanes == {"interactive": 6.0, "batch": 3.0}
    assert totals("loadkit-emulator", text)["clock_lateness_s"] == 0.002
    assert totals("loadkit-emulator", text)["preemptions_total"] == 4.0
    assert totals("loadkit-emulator", text)["rejections_total"] == 7.0
    refused = [json.loads(s.labels) for s in found if s.name == "rejections_total"]
    assert {"lane": "batch", "reason": "queue_full"} in refused


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_no_number_are_dropped(value: str) -> None:
    assert totals("vllm", f"vllm:num_requests_running {value}\n") == {}


@pytest.mark.parametrize(
    "bad",
    [
        'vllm:num_requests_running{engine="0 5',
        "vllm:num_requests_running",
        "vllm:num_requests_running five",
        "vllm:num_requests_running{} ",
        'vllm:num_requests_running{a="' + "x" * 100_000 + '"} 1',
    ],
)
def test_a_bad_line_costs_itself_and_is_said(bad: str) -> None:
    got = parse_metrics("vllm", f"{bad}\nvllm:num_requests_waiting 4\n")
    assert [(s.name, s.value) for s in got.samples] == [("requests_waiting", 4.0)]
    assert got.problem == "1 lines could not be read"


@pytest.mark.parametrize("text", ["", "<html>no</html>", '{"a": 1}', "python_info 1\n"])
def test_an_answer_without_known_metrics_says_so(text: str) -> None:
    got = parse_metrics("vllm", text)
    assert got.samples == []
    assert "none of vllm's metrics" in str(got.problem)


@given(st.text(max_size=300), st.sampled_from(["vllm", "sglang", "llamacpp", "tgi", "openai"]))
def test_no_text_raises(text: str, engine: str) -> None:
    parse_metrics(engine, text)
    parse_metrics(engine, f"vllm:num_requests_running{text}")


def test_what_is_absent_has_a_reason() -> None:
    reasons = absent("llamacpp", {"requests_running"})
    assert "requests_running" not in reasons
    assert reasons["preemptions_total"] == "llamacpp has no such metric"
    assert "llamacpp_requests_deferred" in reasons["requests_waiting"]
    assert ServerMetric.SCRAPE_OK not in reasons
