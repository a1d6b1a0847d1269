"""What queueing theory says exactly of the simplest server with slots: M/M/c. For orientation and tests."""

import math


def erlang_c(servers: int, offered_erlang: float) -> float:
    """Probability that an arrival waits, M/M/c first come first served (Erlang 1917), by the stable

    recursion for Erlang B. 1 where the server is saturated.
    """
    if offered_erlang >= servers:
        return 1.0
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered_erlang * blocked / (number + offered_erlang * blocked)
    return blocked / (1 - offered_erlang / servers * (1 - blocked))


def wait_quantile_s(servers: int, utilisation: float, service_s: float, share: float) -> float:
    """The wait that `share` of the requests stay within, M/M/c: its tail is exponential beyond 0.

    P(W > x) = C exp(-c (1 - rho) x / s). Infinite at saturation.
    """
    if utilisation >= 1:
        return math.inf
    waiting = erlang_c(servers, servers * utilisation)
    if waiting <= 1 - share:
        return 0.0
    return service_s / (servers * (1 - utilisation)) * math.log(waiting / (1 - share))


def utilisation_at_wait(
    servers: int, service_s: float, wait_s: float, share: float = 0.99
) -> float:
    """The utilisation at which `wait_quantile_s` is `wait_s`, by bisection to 1e-9."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if wait_quantile_s(servers, middle, service_s, share) > wait_s:
            high = middle
        else:
            low = middle
    return low
