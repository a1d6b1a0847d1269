"""The frozen types that cross rooms. Facts only; whatever can be derived is derived in `analysis`.

Every instant ends in `_s` and counts seconds from one origin: the first arrival for a trace, the
start of the run for a schedule and a record. Unknown is None, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

INTERACTIVE = "interactive"
BATCH = "batch"


class TraceRequest(NamedTuple):
    """One recorded request, as much of `loadkit.trace/v1` as a replay needs."""

    request_id: str
    arrival_s: float
    lane: str = INTERACTIVE
    tenant: str | None = None
    session: str | None = None
    turn: int | None = None
    parent_id: str | None = None
    think_s: float | None = None
    """Least wait after the parent completed."""
    deadline_s: float | None = None
    """On the same axis as `arrival_s`."""
    priority: int | None = None
    """0 = normal, lower = sooner (vLLM's sense; engines that turn it round are served by their adapter)."""
    prompt_tokens: int | None = None
    """Whole prompt, cached part included."""
    output_tokens: int | None = None
    max_tokens: int | None = None
    prefix_ids: tuple[int, ...] = ()
    """Chained block ids from the start of the prompt; equal ids inside one namespace = equal tokens."""
    prefix_block: int | None = None
    """Tokens per prefix id."""
    prefix_ns: str | None = None
    payload: bytes | None = None
    """A recorded request body, verbatim JSON."""
    prompt: str | None = None
    status: str = "ok"
    service_s: float | None = None
    """How long it holds a slot; for the simulator, where a trace knows this instead of tokens."""


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Where a trace came from and what reading it changed. `rows_read == rows + sum(drops)`."""

    format: str
    source: str
    sha256: str
    rows_read: int
    drops: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    t0_utc: str | None = None
    """ISO 8601 instant of `arrival_s` 0, where the file tells."""


@dataclass(frozen=True, slots=True)
class Trace:
    requests: tuple[TraceRequest, ...]
    """Sorted by arrival; ties in source order."""
    info: TraceInfo

    @property
    def span_s(self) -> float:
        return self.requests[-1].arrival_s if self.requests else 0.0


class Send(NamedTuple):
    """One request that a run will offer, and exactly when. Instants count from the start of the run."""

    request_id: str
    scheduled_s: float
    lane: str
    prompt_tokens: int
    output_tokens: int
    tenant: str | None = None
    session: str | None = None
    turn: int | None = None
    parent_id: str | None = None
    """Set when this request may only go out `think_s` after that one has finished."""
    think_s: float | None = None
    deadline_s: float | None = None
    priority: int | None = None
    prefix_ids: tuple[int, ...] = ()
    prefix_block: int | None = None
    prefix_ns: str | None = None
    payload: bytes | None = None
    prompt: str | None = None


Status = Literal[
    "ok",
    "truncated",  # the stream ended early without a word: no [DONE], no finish reason, or too few tokens
    "rejected",  # the server refused it: 429, 503, or the same inside a 200 stream
    "expired",  # the server gave it up because its deadline had passed
    "timeout",  # the client gave it up
    "error",  # an HTTP error, a refused or reset connection before any token
    "stream_error",  # a failure after the stream had begun
    "cancelled",  # in flight when the run was stopped
    "dropped",  # never sent: in-flight cap, a dead worker, a failed parent
]

QueueWaitSource = Literal["response", "otel", "gateway", "estimated"]


class RequestRecord(NamedTuple):
    """One attempt of one offered request: a row of `requests/`. Field order is the column order."""

    request_id: str
    lane: str
    scheduled_s: float
    """When it was due: the planned instant or, for a follow-up turn, its parent's end plus think time."""
    status: Status
    attempt: int = 0
    source: Literal["live", "sim"] = "live"
    tenant: str | None = None
    session: str | None = None
    turn: int | None = None
    priority: int | None = None
    deadline_s: float | None = None
    planned_s: float | None = None
    """The instant in the schedule; differs from `scheduled_s` only where a slow parent delayed a turn."""
    sent_s: float | None = None
    """Just before the first byte was handed to the socket."""
    connect_s: float | None = None
    """Time to open the connection (DNS, TCP, TLS), null when an open one was used."""
    first_byte_s: float | None = None
    first_token_s: float | None = None
    """First generated content on any channel (text, reasoning, tool call)."""
    first_answer_s: float | None = None
    """First content that is not reasoning."""
    last_token_s: float | None = None
    finished_s: float | None = None
    chunk_offsets_s: tuple[float, ...] | None = None
    """Arrival of every content chunk, counted from `sent_s`. A chunk may hold several tokens."""
    prompt_tokens_planned: int | None = None
    output_tokens_planned: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    token_source: Literal["usage", "chunks"] | None = None
    """`usage`: the server's own count. `chunks`: counted content chunks, an estimate."""
    finish_reason: str | None = None
    http_status: int | None = None
    error: str | None = None
    retry_after_s: float | None = None
    malformed_events: int | None = None
    queue_wait_s: float | None = None
    """Arrival at the engine to first scheduled there; never contains time spent preempted."""
    queue_wait_source: QueueWaitSource | None = None
    prefill_s: float | None = None
    """First scheduled to first token, as the engine tells it."""
    preemptions: int | None = None
    recomputed_tokens: int | None = None
    worker: int | None = None
    target: str | None = None


class ServerMetric(StrEnum):
    """Canonical names of what a target (or a worker of ours) tells about itself over time.

    Counters end in `_total`; histograms are kept as their `_sum` and `_count`. Ratios are 0..1.
    """

    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    KV_USAGE_RATIO = "kv_usage_ratio"
    PREEMPTIONS_TOTAL = "preemptions_total"
    PROMPT_TOKENS_TOTAL = "prompt_tokens_total"
    GENERATION_TOKENS_TOTAL = "generation_tokens_total"
    CACHED_TOKENS_TOTAL = "cached_tokens_total"
    RECOMPUTED_TOKENS_TOTAL = "recomputed_tokens_total"
    REQUESTS_FINISHED_TOTAL = "requests_finished_total"
    REJECTIONS_TOTAL = "rejections_total"
    ABORTS_TOTAL = "aborts_total"
    QUEUE_TIME_SECONDS_SUM = "queue_time_seconds_sum"
    QUEUE_TIME_SECONDS_COUNT = "queue_time_seconds_count"
    PREFILL_TIME_SECONDS_SUM = "prefill_time_seconds_sum"
    PREFILL_TIME_SECONDS_COUNT = "prefill_time_seconds_count"
    TTFT_SECONDS_SUM = "ttft_seconds_sum"
    TTFT_SECONDS_COUNT = "ttft_seconds_count"
    E2E_SECONDS_SUM = "e2e_seconds_sum"
    E2E_SECONDS_COUNT = "e2e_seconds_count"
    STEP_TOKENS_SUM = "step_tokens_sum"
    STEP_TOKENS_COUNT = "step_tokens_count"
    MAX_NUM_SEQS = "max_num_seqs"
    MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
    """The token budget of a step."""
    KV_BLOCKS = "kv_blocks"
    KV_BLOCK_TOKENS = "kv_block_tokens"
    CLOCK_LATENESS_S = "clock_lateness_s"
    """The emulator's own: how late its last step ended against its schedule."""
    CLOCK_LATENESS_MAX_S = "clock_lateness_max_s"
    """The emulator's own: the largest such lateness since it started."""
    SCRAPE_OK = "scrape_ok"
    """1 = the sample at this instant was taken, 0 = the scrape failed: the gap is then known as a gap."""
    # A worker of ours, engine = "loadkit", target = "worker-<n>".
    WORKER_CPU_RATIO = "worker_cpu_ratio"
    WORKER_CPU_WAIT_RATIO = "worker_cpu_wait_ratio"
    """Share of time the process was runnable but had no CPU."""
    WORKER_LOOP_LAG_S = "worker_loop_lag_s"
    """Largest lateness of a timer in the event loop since the last sample."""
    WORKER_IN_FLIGHT = "worker_in_flight"
    WORKER_SENT_TOTAL = "worker_sent_total"
    WORKER_RSS_BYTES = "worker_rss_bytes"


class MetricSample(NamedTuple):
    """A row of `metrics/`. `labels` is a JSON object with sorted keys, without the ones named here."""

    t_s: float
    target: str
    engine: str
    name: str
    labels: str
    value: float


@dataclass(frozen=True, slots=True)
class Slo:
    """`interactive:ttft:p99:500ms` = the p99 of TTFT in the interactive lane is at most 0.5 s.

    For goodput a request is good when it meets the thresholds of every SLO of its lane.
    """

    lane: str
    metric: str
    quantile: float
    threshold_s: float


@dataclass(frozen=True, slots=True)
class Target:
    """Where to send and how. Holds names of environment variables, never a secret."""

    url: str
    """Scheme, host and port, and a path prefix where there is one; no trailing slash, no credentials."""
    api: Literal["completions", "chat"] = "completions"
    model: str | None = None
    stream: bool = True
    engine: str | None = None
    """Name of the adapter in `engines.ENGINES`; None = detect."""
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra request headers. In a value `$NAME` stands for an environment variable, and `{lane}`,
    `{tenant}`, `{priority}` and `{deadline_s}` for what the request has."""
    lane_headers: bool = True
    """Send lane, tenant, priority and deadline as `X-Loadkit-*` headers."""
    ca_file: str | None = None
    insecure: bool = False
