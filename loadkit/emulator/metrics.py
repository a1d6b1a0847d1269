"""What /metrics tells: vLLM's names, labels and buckets, and per-lane ones of our own.

Counting is a few integer additions per token; text is made by prometheus-client when it is asked for.
"""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from loadkit.clock import Anchor
from loadkit.core import Event, Sequence, Token


def _bounds(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


# vLLM's buckets (vllm/v1/metrics/buckets.py).
TTFT_S = _bounds(".001 .005 .01 .02 .04 .06 .08 .1 .25 .5 .75 1 2.5 5 7.5 10 20 40 80 160 640 2560")
ITL_S = _bounds(".01 .025 .05 .075 .1 .15 .2 .3 .4 .5 .75 1 2.5 5 7.5 10 20 40 80")
REQUEST_S = _bounds(".3 .5 .8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680")
STEP_TOKENS = _bounds("1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384")
PREEMPTIONS = _bounds("1 2 3 4 5 10 20")
# Ours: vLLM's first queue bucket ends at 0.3 s, too coarse to see an interactive lane wait.
LANE_WAIT_S = _bounds(".001 .002 .005 .01 .02 .05 .1 .2 .5 1 2 5 10 30 60 300 1800 7200")

MAX_LANES = 64
"""Lane names come from clients: past this many the rest are counted as `other`."""


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, count up to it), the last bound infinite."""
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Metrics:
    """Everything counted since the engine started."""

    def __init__(self) -> None:
        self.started_unix_s = Anchor.now().unix_s
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.queried_tokens = 0
        self.preemptions = 0
        self.recomputed_tokens = 0
        self.aborts = 0
        self.expired = 0
        self.failed = 0
        self.success: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()
        self.lane_preemptions: Counter[str] = Counter()
        self.lane_wait: dict[str, Histogram] = {}
        self.ttft = Histogram(TTFT_S)
        self.itl = Histogram(ITL_S)
        self.tpot = Histogram(ITL_S)
        self.e2e = Histogram(REQUEST_S)
        self.queue = Histogram(REQUEST_S)
        self.prefill = Histogram(REQUEST_S)
        self.decode = Histogram(REQUEST_S)
        self.inference = Histogram(REQUEST_S)
        self.request_preemptions = Histogram(PREEMPTIONS)
        self.step_tokens = Histogram(STEP_TOKENS)
        self.lateness_s = 0.0
        self.max_lateness_s = 0.0
        self._last_s: dict[Sequence, float] = {}

    def lane(self, name: str) -> str:
        if name in self.lane_wait or len(self.lane_wait) < MAX_LANES:
            return name
        return "other"

    def lateness(self, seconds: float) -> None:
        """How late a step ended against its deadline."""
        self.lateness_s = seconds
        self.max_lateness_s = max(self.max_lateness_s, seconds)

    def step(self, tokens: int) -> None:
        self.step_tokens.observe(tokens)

    def token(self, token: Token, now_s: float) -> None:
        self.generation_tokens += 1
        seq = token.seq
        if token.position:
            self.itl.observe(now_s - self._last_s[seq])
        else:
            self.prompt_tokens += seq.prompt_tokens
            self.cached_tokens += seq.cached_tokens
            self.ttft.observe(now_s - seq.arrival_s)
        self._last_s[seq] = now_s

    def event(self, event: Event) -> None:
        seq = event.seq
        if event.kind == "scheduled":
            self.queried_tokens += seq.prompt_tokens
            lane = self.lane(seq.lane)
            wait = self.lane_wait.setdefault(lane, Histogram(LANE_WAIT_S))
            wait.observe(event.t_s - seq.arrival_s)
        elif event.kind == "preempted":
            self.preemptions += 1
            self.lane_preemptions[self.lane(seq.lane)] += 1
        elif event.kind == "rejected":
            self.rejections[seq.refusal or "unknown"] += 1
        elif event.kind in ("finished", "cancelled", "expired"):
            self._last_s.pop(seq, None)
            self.recomputed_tokens += seq.recomputed_tokens
            self.expired += event.kind == "expired"

    def finished(self, seq: Sequence, reason: str) -> None:
        """As in vLLM a request's own times are observed when it has finished, and only then."""
        assert seq.first_scheduled_s is not None
        assert seq.first_token_s is not None
        assert seq.last_token_s is not None
        decode_s = seq.last_token_s - seq.first_token_s
        self.success[reason] += 1
        self.e2e.observe(seq.last_token_s - seq.arrival_s)
        self.queue.observe(seq.first_scheduled_s - seq.arrival_s)
        self.prefill.observe(seq.first_token_s - seq.first_scheduled_s)
        self.decode.observe(decode_s)
        self.inference.observe(seq.last_token_s - seq.first_scheduled_s)
        self.request_preemptions.observe(seq.preemptions)
        if seq.generated_tokens > 1:
            self.tpot.observe(decode_s / (seq.generated_tokens - 1))
