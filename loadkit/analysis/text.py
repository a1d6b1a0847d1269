"""Numbers inside the sentences of checks and SLOs."""


def seconds(value_s: float) -> str:
    """Three significant digits at most, no padding: 0.05 → `50 ms`, 2 → `2 s`, 1.534 → `1.53 s`."""
    if abs(value_s) >= 999.5:
        return f"{value_s:.0f} s"
    if abs(value_s) >= 0.9995:
        return f"{value_s:.3g} s"
    return f"{value_s * 1e3:.3g} ms" if abs(value_s) >= 1e-3 else f"{value_s * 1e3:.2g} ms"


def share(value: float) -> str:
    """0.08 → `8%`."""
    return f"{value:.0%}"
