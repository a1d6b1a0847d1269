"""What /metrics tells: vLLM's names, labels and buckets, and per-lane ones of our own.

Counting is a few integer additions per token; text is made by prometheus-client when it is asked for.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise

from loadkit.clock import Anchor
from loadkit.core import Event, Sequence, Token
from loadkit.emulator import histogram as h
from loadkit.emulator.histogram import Histogram
from loadkit.emulator.lateness import Lateness

MAX_LANES = 16
"""Lane names come from clients: past this many the rest are counted as `other`."""
USUAL_LANES = ("interactive", "batch")

_PROMPT_EDGES = (128, 512, 2048, 8192, 32_768)
PROMPT_CLASSES = (
    f"1-{_PROMPT_EDGES[0]}",
    *(f"{low + 1}-{high}" for low, high in pairwise(_PROMPT_EDGES)),
    f"{_PROMPT_EDGES[-1] + 1}-",
)
"""Prompt lengths in tokens, by factors of four: chat turns, documents, whole context windows."""

LabelValues = tuple[str, ...]
"""A lane, and a reason or a class of prompt lengths."""


class Metrics:
    """Everything counted since the engine started."""

    def __init__(self) -> None:
        self.started_unix_s = Anchor.now().unix_s
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.queried_tokens = 0
        self.recomputed_tokens = 0
        self.aborts = 0
        self.failed = 0
        self.success: Counter[str] = Counter()
        self.lanes = dict.fromkeys(USUAL_LANES)
        """Names in use, in the order they came."""
        self.rejections: Counter[LabelValues] = Counter()
        self.drops: Counter[LabelValues] = Counter()
        self.preemptions: Counter[LabelValues] = Counter()
        self.lane_wait = defaultdict[str, Histogram](partial(Histogram, h.LANE_WAIT_S))
        self.lane_ttft = defaultdict[LabelValues, Histogram](partial(Histogram, h.TTFT_S))
        self.ttft = Histogram(h.TTFT_S)
        self.itl = Histogram(h.ITL_S)
        self.tpot = Histogram(h.ITL_S)
        self.e2e = Histogram(h.REQUEST_S)
        self.queue = Histogram(h.REQUEST_S)
        self.prefill = Histogram(h.REQUEST_S)
        self.decode = Histogram(h.REQUEST_S)
        self.inference = Histogram(h.REQUEST_S)
        self.request_preemptions = Histogram(h.PREEMPTIONS)
        self.step_tokens = Histogram(h.STEP_TOKENS)
        self.lateness = Lateness()
        self._last_s: dict[Sequence, float] = {}
        self._counts = {
            "rejected": self.rejections,
            "expired": self.drops,
            "preempted": self.preemptions,
        }

    def lane(self, name: str) -> str:
        if name not in self.lanes:
            if len(self.lanes) >= MAX_LANES:
                return "other"
            self.lanes[name] = None
        return name

    def step(self, tokens: int) -> None:
        self.step_tokens.observe(tokens)

    def token(self, token: Token, now_s: float) -> None:
        self.generation_tokens += 1
        seq = token.seq
        if token.position:
            self.itl.observe(now_s - self._last_s[seq])
        else:
            self._first_token(seq, now_s - seq.arrival_s)
        self._last_s[seq] = now_s

    def _first_token(self, seq: Sequence, ttft_s: float) -> None:
        self.prompt_tokens += seq.prompt_tokens
        self.cached_tokens += seq.cached_tokens
        self.ttft.observe(ttft_s)
        self.lane_ttft[self.lane(seq.lane), prompt_class(seq.prompt_tokens)].observe(ttft_s)

    def event(self, event: Event) -> None:
        seq, lane = event.seq, self.lane(event.seq.lane)
        if event.kind in self._counts:
            self._counts[event.kind][lane, event.reason or "unknown"] += 1
        if event.kind == "scheduled":
            self.queried_tokens += seq.prompt_tokens
            self.lane_wait[lane].observe(event.t_s - seq.arrival_s)
        elif event.kind in ("finished", "cancelled", "expired"):
            self._last_s.pop(seq, None)
            self.recomputed_tokens += seq.recomputed_tokens

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


def prompt_class(prompt_tokens: int) -> str:
    return PROMPT_CLASSES[bisect_left(_PROMPT_EDGES, prompt_tokens)]
