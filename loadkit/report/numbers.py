"""Numbers as people read them: three significant digits, a unit, a dash for the unknown."""

UNKNOWN = "\N{EN DASH}"
_NBSP = "\N{NO-BREAK SPACE}"


def seconds(value_s: float | None) -> str:
    """0.0431 → `43.1 ms`, 75 → `75.0 s`, 4000 → `1 h 6.7 min`; a dash for None."""
    if value_s is None:
        return UNKNOWN
    size_s = abs(value_s)
    if size_s < 0.9995e-3:
        return f"{value_s * 1e6:.0f}{_NBSP}µs" if value_s else f"0{_NBSP}ms"
    if size_s < 0.9995:
        return f"{_digits(value_s * 1e3)}{_NBSP}ms"
    if size_s < 600:
        return f"{_digits(value_s)}{_NBSP}s"
    if size_s < 3600:
        return f"{value_s / 60:.1f}{_NBSP}min"
    hours, minutes = divmod(round(value_s / 60), 60)
    return f"{hours}{_NBSP}h{_NBSP}{minutes}{_NBSP}min"


def instant(t_s: float | None) -> str:
    """A place on the run's own time axis: 12.34 → `12.3 s`."""
    return UNKNOWN if t_s is None else f"{t_s:.1f}{_NBSP}s"


def share(value: float | None) -> str:
    """0.9421 → `94.2 %`. Never rounds up to `100 %` nor down to `0 %` what is not."""
    if value is None:
        return UNKNOWN
    percent = value * 100
    if 99.95 <= percent < 100:
        return f">{_NBSP}99.9{_NBSP}%"
    if 0 < percent < 0.05:
        return f"<{_NBSP}0.1{_NBSP}%"
    return f"{percent:.0f}{_NBSP}%" if percent in (0, 100) else f"{percent:.1f}{_NBSP}%"


def rate(value_rps: float | None) -> str:
    return UNKNOWN if value_rps is None else f"{_digits(value_rps)}{_NBSP}/s"


def count(value: float | None) -> str:
    """12345 → `12,345`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def level(value: float | None) -> str:
    """A mean of something counted: `3.08`."""
    return UNKNOWN if value is None else _digits(value)


def signed_share(value: float | None) -> str:
    """0.031 → `+3.1 %`; what rounds to nothing has no sign."""
    if value is None:
        return UNKNOWN
    return f"{value * 100:+.1f}{_NBSP}%" if abs(value) >= 0.0005 else f"0.0{_NBSP}%"


def _digits(value: float) -> str:
    """Three significant digits, no exponent, no more than two decimals."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
