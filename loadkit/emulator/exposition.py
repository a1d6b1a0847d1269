"""Metrics → Prometheus text."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from loadkit.core import EvictionReason, Scheduler
from loadkit.emulator.histogram import Histogram
from loadkit.emulator.metrics import MAX_LANES, LabelValues, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Told as 0 before they happen: a series that appears late has no first value.
_REJECTIONS = (
    "queue_full",
    "lane_queue_full",
    "wait_too_long",
    "deadline_unmeetable",
    "deadline_passed",
    "scripted",
)
_DROPS = ("deadline_passed", "queue_timeout")
_PREEMPTIONS = get_args(EvictionReason)
_VLLM_REASONS = {"queue_full": "max_num_queued_reqs"}


class Exposition:
    """One scrape. `collect` is what prometheus-client asks for."""

    def __init__(self, metrics: Metrics, scheduler: Scheduler, model: str) -> None:
        self._metrics = metrics
        self._scheduler = scheduler
        self._labels = {"engine": "0", "model_name": model}

    def text(self) -> bytes:
        text: bytes = generate_latest(self)
        return text

    def collect(self) -> Iterator[object]:
        yield from self._gauges()
        yield from self._noise()
        yield from self._counters()
        yield from self._histograms()
        yield from self._lanes()

    def _gauges(self) -> Iterator[object]:
        scheduler, limits = self._scheduler, self._scheduler.limits
        used = scheduler.blocks.used_blocks / limits.kv_blocks
        yield self._gauge("vllm:num_requests_running", "Running", len(scheduler.running))
        yield self._gauge("vllm:num_requests_waiting", "Waiting", len(scheduler.waiting))
        yield self._gauge("vllm:kv_cache_usage_perc", "KV blocks in use, 0..1", used)
        yield self._gauge("loadkit:max_num_seqs", "Slots", limits.max_num_seqs)
        yield self._gauge(
            "loadkit:max_num_batched_tokens",
            "Token budget of a step",
            limits.max_num_batched_tokens,
        )
        yield self._cache_config()
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Unix time", value=self._metrics.started_unix_s
        )

    def _noise(self) -> Iterator[object]:
        late = self._metrics.lateness
        yield self._gauge("loadkit:clock_lateness_seconds", "Of the last step's end", late.last_s)
        yield self._gauge("loadkit:clock_lateness_max_seconds", "Largest so far", late.max_s)
        yield self._gauge(
            "loadkit:clock_backlog_max_seconds",
            "Most behind by more than a step",
            late.max_backlog_s,
        )
        yield self._counter("loadkit:clock_overrun_steps", {(): late.overruns}, ())
        yield self._histogram("loadkit:step_lateness_seconds", {(): late.histogram}, ())

    def _cache_config(self) -> object:
        limits = self._scheduler.limits
        labels = {
            "block_size": str(limits.block_tokens),
            "num_gpu_blocks": str(limits.kv_blocks),
            "enable_prefix_caching": str(limits.prefix_cache),
            "kv_cache_size_tokens": str(limits.kv_blocks * limits.block_tokens),
        }
        return self._gauge("vllm:cache_config_info", "Cache configuration", 1, labels)

    def _counters(self) -> Iterator[object]:
        m = self._metrics
        # What running sequences have computed again already counts.
        recomputed = m.recomputed_tokens + sum(
            seq.recomputed_tokens for seq in (*self._scheduler.running, *self._scheduler.waiting)
        )
        totals = {
            "vllm:num_preemptions": m.preemptions.total(),
            "vllm:prompt_tokens": m.prompt_tokens,
            "vllm:prompt_tokens_cached": m.cached_tokens,
            "vllm:generation_tokens": m.generation_tokens,
            "vllm:prefix_cache_queries": m.queried_tokens,
            "vllm:prefix_cache_hits": m.cached_tokens,
            "loadkit:recomputed_tokens": recomputed,
            "loadkit:aborts": m.aborts,
            "loadkit:expired": m.drops.total(),
        }
        for name, value in totals.items():
            yield self._counter(name, {(): value}, ())
        ends: dict[LabelValues, float] = {
            (reason,): m.success[reason] for reason in ("stop", "length")
        }
        ends["error",] = m.failed
        yield self._counter("vllm:request_success", ends, ("finished_reason",))
        yield self._rejections()

    def _rejections(self) -> object:
        counts = Counter({"max_num_queued_reqs": 0})
        for (_, reason), count in self._metrics.rejections.items():
            counts[_VLLM_REASONS.get(reason, reason)] += count
        family = CounterMetricFamily(
            "vllm:admission_rejections", "Refused arrivals", labels=("model_name", "reason")
        )
        for reason, count in counts.items():
            family.add_metric((self._labels["model_name"], reason), count)
        return family

    def _histograms(self) -> Iterator[object]:
        m = self._metrics
        histograms = {
            "vllm:time_to_first_token_seconds": m.ttft,
            "vllm:inter_token_latency_seconds": m.itl,
            "vllm:request_time_per_output_token_seconds": m.tpot,
            "vllm:e2e_request_latency_seconds": m.e2e,
            "vllm:request_queue_time_seconds": m.queue,
            "vllm:request_prefill_time_seconds": m.prefill,
            "vllm:request_decode_time_seconds": m.decode,
            "vllm:request_inference_time_seconds": m.inference,
            "vllm:request_num_preemptions": m.request_preemptions,
            "vllm:iteration_tokens_total": m.step_tokens,
        }
        for name, histogram in histograms.items():
            yield self._histogram(name, {(): histogram}, ())

    def _lanes(self) -> Iterator[object]:
        m, scheduler = self._metrics, self._scheduler
        running = Counter(m.lane(seq.lane) for seq in scheduler.running)
        waiting = Counter(m.lane(seq.lane) for seq in scheduler.waiting)
        yield self._of_lanes("loadkit:lane_requests_running", running)
        yield self._of_lanes("loadkit:lane_requests_waiting", waiting)
        yield self._of_lanes("loadkit:lane_kv_cache_usage_ratio", self._kv_ratios())
        yield self._by_reason("loadkit:lane_rejections", m.rejections, _REJECTIONS)
        yield self._by_reason("loadkit:lane_drops", m.drops, _DROPS)
        yield self._by_reason("loadkit:lane_preemptions", m.preemptions, _PREEMPTIONS)
        waits: dict[LabelValues, Histogram] = {
            (key,): histogram for key, histogram in m.lane_wait.items()
        }
        yield self._histogram("loadkit:lane_queue_time_seconds", waits, ("lane",))
        yield self._histogram(
            "loadkit:lane_time_to_first_token_seconds", m.lane_ttft, ("lane", "prompt_tokens")
        )

    def _lane_names(self) -> list[str]:
        lanes = self._metrics.lanes
        return list(dict.fromkeys([*lanes, "other"] if len(lanes) >= MAX_LANES else lanes))

    def _kv_ratios(self) -> Mapping[str, float]:
        """Of all blocks, held by what runs. One that n sequences share counts 1/n for each of them."""
        pool, running = self._scheduler.blocks, self._scheduler.running
        alone = sum(len(seq.block_table) for seq in running) == pool.used_blocks
        held: dict[str, float] = dict.fromkeys(self._lane_names(), 0.0)
        for seq in running:
            blocks = len(seq.block_table) if alone else pool.shares(seq.block_table)
            held[self._metrics.lane(seq.lane)] += blocks / pool.num_blocks
        return held

    def _of_lanes(self, name: str, values: Mapping[str, float]) -> object:
        family = GaugeMetricFamily(name, "By lane", labels=(*self._labels, "lane"))
        for lane in self._lane_names():
            family.add_metric((*self._labels.values(), lane), values.get(lane, 0))
        return family

    def _by_reason(
        self, name: str, counts: Mapping[LabelValues, int], reasons: tuple[str, ...]
    ) -> object:
        values: dict[LabelValues, float] = {
            (lane, reason): 0 for lane in self._lane_names() for reason in reasons
        }
        return self._counter(name, {**values, **counts}, ("lane", "reason"))

    def _gauge(
        self, name: str, about: str, value: float, more: Mapping[str, str] | None = None
    ) -> object:
        labels = {**self._labels, **(more or {})}
        family = GaugeMetricFamily(name, about, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), value)
        return family

    def _counter(
        self, name: str, values: Mapping[LabelValues, float], labels: LabelValues
    ) -> object:
        family = CounterMetricFamily(name, "Since start", labels=(*self._labels, *labels))
        for key, value in values.items():
            family.add_metric((*self._labels.values(), *key), value)
        return family

    def _histogram(
        self, name: str, values: Mapping[LabelValues, Histogram], labels: LabelValues
    ) -> object:
        family = HistogramMetricFamily(name, "Since start", labels=(*self._labels, *labels))
        for key, histogram in values.items():
            family.add_metric(
                (*self._labels.values(), *key), histogram.cumulative(), histogram.total
            )
        return family
