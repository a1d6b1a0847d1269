"""The sending path's promises, checked against a finished table."""

from collections.abc import Iterator
from typing import NamedTuple

from measure import Row

PEERS = ("requests", "fasthttp", "aiohttp")
US = "loadkit"


class Check(NamedTuple):
    what: str
    value: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.value <= self.bound

    def line(self) -> str:
        verdict = "PASS" if self.passed else "FAIL"
        return f"{verdict}  {self.what}: {self.value:.3g}, bound {self.bound:.3g}"


def check(rows: list[Row]) -> list[Check]:
    """Nothing to check without loadkit among the clients; NaN never passes."""
    ours = {row.rate_rps: row for row in rows if row.client == US}
    checks = list(_delivered(ours))
    if 100 in ours:
        checks += _at_100(ours[100])
    if 300 in ours:
        checks += _at_300(ours[300], [r for r in rows if r.rate_rps == 300 and r.client in PEERS])
    return checks


def _delivered(ours: dict[float, Row]) -> Iterator[Check]:
    for rate_rps, row in ours.items():
        at = f"{rate_rps:g}/s"
        yield Check(f"{at} requests lost or unmatched", row.offered - row.measured, 0)
        yield Check(f"{at} send lag p99, ms", row.send_lag_ms.p99, 5)


def _at_100(row: Row) -> Iterator[Check]:
    for name, spread in (("TTFT", row.ttft_error_ms), ("ITL", row.itl_error_ms)):
        yield Check(f"100/s {name} error p50, ms", spread.p50, 1)
        yield Check(f"100/s {name} error p99, ms", spread.p99, 4)


def _at_300(row: Row, peers: list[Row]) -> Iterator[Check]:
    yield Check("300/s TTFT error p99, ms", row.ttft_error_ms.p99, 8)
    yield Check("300/s ITL error p99, ms", row.itl_error_ms.p99, 8)
    if not peers:
        return
    best = min(peers, key=lambda peer: peer.ttft_error_ms.p99)
    fifth = best.ttft_error_ms.p99 / 5
    yield Check(f"300/s TTFT error p99, ms, a fifth of {best.client}", row.ttft_error_ms.p99, fifth)
    half = best.cpu_us_per_token / 2
    yield Check(f"300/s CPU µs/token, half of {best.client}", row.cpu_us_per_token, half)
    best_itl = min(peers, key=lambda peer: peer.itl_error_ms.p99)
    fifth = best_itl.itl_error_ms.p99 / 5
    yield Check(
        f"300/s ITL error p99, ms, a fifth of {best_itl.client}", row.itl_error_ms.p99, fifth
    )
