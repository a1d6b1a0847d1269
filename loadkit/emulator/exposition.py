"""Metrics → Prometheus text."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from loadkit.core import Scheduler
from loadkit.emulator.metrics import Histogram, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_Key = tuple[str, ...]


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
        yield from self._counters()
        yield from self._histograms()
        yield from self._lanes()

    def _gauges(self) -> Iterator[object]:
        scheduler, limits = self._scheduler, self._scheduler.limits
        used = scheduler.blocks.used_blocks / limits.kv_blocks
        metrics = self._metrics
        yield self._gauge("vllm:num_requests_running", "Running", len(scheduler.running))
        yield self._gauge("vllm:num_requests_waiting", "Waiting", len(scheduler.waiting))
        yield self._gauge("vllm:kv_cache_usage_perc", "KV blocks in use, 0..1", used)
        yield self._gauge("loadkit:max_num_seqs", "Slots", limits.max_num_seqs)
        yield self._gauge(
            "loadkit:clock_lateness_seconds", "Of the last step's end", metrics.lateness_s
        )
        yield self._gauge(
            "loadkit:clock_lateness_max_seconds", "Largest so far", metrics.max_lateness_s
        )
        yield self._cache_config()
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Unix time", value=metrics.started_unix_s
        )

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
            "vllm:num_preemptions": m.preemptions,
            "vllm:prompt_tokens": m.prompt_tokens,
            "vllm:prompt_tokens_cached": m.cached_tokens,
            "vllm:generation_tokens": m.generation_tokens,
            "vllm:prefix_cache_queries": m.queried_tokens,
            "vllm:prefix_cache_hits": m.cached_tokens,
            "loadkit:recomputed_tokens": recomputed,
            "loadkit:aborts": m.aborts,
            "loadkit:expired": m.expired,
        }
        for name, value in totals.items():
            yield self._counter(name, {(): value}, ())
        ends: dict[_Key, float] = {(reason,): m.success[reason] for reason in ("stop", "length")}
        ends["error",] = m.failed
        yield self._counter("vllm:request_success", ends, ("finished_reason",))
        yield self._rejections()

    def _rejections(self) -> object:
        counts = Counter({"max_num_queued_reqs": 0})
        for reason, count in self._metrics.rejections.items():
            counts["max_num_queued_reqs" if reason == "queue_full" else reason] += count
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
        m, lane = self._metrics, ("lane",)
        running = Counter(m.lane(seq.lane) for seq in self._scheduler.running)
        waiting = Counter(m.lane(seq.lane) for seq in self._scheduler.waiting)
        # The usual lanes are there from the start: a series that appears late has no first value.
        names = sorted({"interactive", "batch", *running, *waiting, *m.lane_wait})
        for name, counts in (
            ("loadkit:lane_requests_running", running),
            ("loadkit:lane_requests_waiting", waiting),
        ):
            family = GaugeMetricFamily(name, "By lane", labels=(*self._labels, *lane))
            for key in names:
                family.add_metric((*self._labels.values(), key), counts[key])
            yield family
        evicted: dict[_Key, float] = {(key,): m.lane_preemptions[key] for key in names}
        yield self._counter("loadkit:lane_preemptions", evicted, lane)
        waits: dict[_Key, Histogram] = {(key,): histogram for key, histogram in m.lane_wait.items()}
        yield self._histogram("loadkit:lane_queue_time_seconds", waits, lane)

    def _gauge(
        self, name: str, about: str, value: float, more: Mapping[str, str] | None = None
    ) -> object:
        labels = {**self._labels, **(more or {})}
        family = GaugeMetricFamily(name, about, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), value)
        return family

    def _counter(self, name: str, values: Mapping[_Key, float], labels: _Key) -> object:
        family = CounterMetricFamily(name, "Since start", labels=(*self._labels, *labels))
        for key, value in values.items():
            family.add_metric((*self._labels.values(), *key), value)
        return family

    def _histogram(self, name: str, values: Mapping[_Key, Histogram], labels: _Key) -> object:
        family = HistogramMetricFamily(name, "Since start", labels=(*self._labels, *labels))
        for key, histogram in values.items():
            family.add_metric(
                (*self._labels.values(), *key), histogram.cumulative(), histogram.total
            )
        return family
