"""Counting by size: what Prometheus calls a histogram, and the bounds that we count by."""

from bisect import bisect_left
from itertools import accumulate


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
LATENESS_S = _bounds(
    "1e-5 2e-5 5e-5 .0001 .0002 .0005 .001 .002 .005 .01 .02 .05 .1 .2 .5 1 2 5 10"
)


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, count up to it), the last bound infinite."""
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))

    def at_most(self, share: float) -> float:
        """The smallest bound that `share` of the values do not exceed; infinite above the last."""
        upto = accumulate(self.counts)
        wanted = share * self.count
        return next(
            (bound for bound, count in zip(self.bounds, upto, strict=False) if count >= wanted),
            float("inf"),
        )
