"""Weighted fair sharing between tenants: start-time fair queueing, the state behind `orders.fair`.

P. Goyal, H. Vin and H. Cheng, "Start-time fair queueing", SIGCOMM 1996. A request of tenant f gets the
start tag S = max(V, F_f) and leaves F_f = S + work / weight behind; the smallest S is served first and
V becomes its S. A tenant that floods pushes only its own tags into the future.
"""

from collections.abc import Mapping


class FairClock:
    """Virtual time V and the last finish tag F of each tenant."""

    __slots__ = ("_finish_of", "_now", "_weights")

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._finish_of: dict[str | None, float] = {}
        self._now = 0.0

    def tag(self, tenant: str | None, work: float) -> float:
        """The start tag of an arrival. Tenants without a weight have weight 1."""
        start = max(self._now, self._finish_of.get(tenant, 0.0))
        self._finish_of[tenant] = start + work / self._weights.get(tenant or "", 1.0)
        return start

    def served(self, tag: float) -> None:
        """A request with this tag starts."""
        self._now = max(self._now, tag)
