"""How well the engine kept to its clock: the scheduling noise it reports of itself.

A step that ends late does not make the next one late: deadlines chain from deadlines, and the next
step has that much less to sleep. Lateness adds up only while the engine needs more time for a step
than the step is to take, so that the next deadline has passed before it can sleep at all. Then it is
behind by a whole step and more: that is counted apart, as an overrun, with the largest backlog.
"""

from loadkit.emulator.histogram import LATENESS_S, Histogram

# From a microsecond to 18 minutes, each bound 5 % above the last.
_FINE_S = tuple(1e-6 * 1.05**power for power in range(426))


class Lateness:
    """Of every step since the engine started."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.max_s = 0.0
        self.overruns = 0
        """Steps whose deadline had passed before the wait for it could begin."""
        self.max_backlog_s = 0.0
        """The most by which one had: how far the engine was behind by more than a step."""
        self.histogram = Histogram(LATENESS_S)
        self._fine = Histogram(_FINE_S)

    def step(self, late_s: float, backlog_s: float) -> None:
        """One has ended `late_s` after its deadline; `backlog_s` of that was over before the wait."""
        self.last_s = late_s
        self.max_s = max(self.max_s, late_s)
        if backlog_s > 0:
            self.overruns += 1
            self.max_backlog_s = max(self.max_backlog_s, backlog_s)
        self.histogram.observe(late_s)
        self._fine.observe(late_s)

    def summary(self) -> dict[str, float | int]:
        """Quantiles are upper bounds: the true ones are at most 5 % lower, or below a microsecond."""
        steps = self._fine.count
        if not steps:
            return {"steps": 0}
        return {
            "steps": steps,
            "lateness_p50_s": min(self._fine.at_most(0.50), self.max_s),
            "lateness_p99_s": min(self._fine.at_most(0.99), self.max_s),
            "lateness_max_s": self.max_s,
            "overrun_steps": self.overruns,
            "backlog_max_s": self.max_backlog_s,
        }
