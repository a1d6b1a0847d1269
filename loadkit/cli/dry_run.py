"""What `replay --dry-run` prints: the plan in numbers and as a curve."""

from loadkit import schedule
from loadkit.schedule import Schedule

_BARS = " ▁▂▃▄▅▆▇█"


def describe_plan(planned: Schedule) -> str:
    totals = schedule.describe(planned)
    edges, curves = schedule.rate_curve(planned)
    lines = [
        (
            f"{totals['requests']:,} requests over {_time(totals['duration_s'])}"
            f" (recorded: {_time(totals['recorded_duration_s'])})"
        ),
        f"rate: mean {totals['mean_rate_rps']:.2f}/s, busiest second {totals['peak_rate_rps']}",
        f"tokens: {totals['prompt_tokens']:,} in, {totals['output_tokens']:,} out",
    ]
    if totals["sessions"]:
        lines.append(
            f"sessions: {totals['sessions']:,}, with {totals['follow_up_turns']:,} follow-up turns"
        )
    width = max(map(len, curves))
    for lane, rates in curves.items():
        bars = "".join(_BARS[round(8 * rate / max(rates.max(), 1e-9))] for rate in rates)
        count = totals["lanes"][lane]
        lines.append(f"{lane:<{width}}  {bars}  {count:,} requests, up to {rates.max():.2f}/s")
    lines.append(f"{'':<{width}}  0 s{_time(edges[-1]):>{len(edges) - 4}}")
    lines.append(f"{'':<{width}}  each mark is {_time(edges[1])}")
    lines += [f"not sent: {n:,} × {why}" for why, n in totals["dropped"].items()]
    lines += [f"note: {n:,} {what}" for what, n in totals["notes"].items()]
    return "\n".join([*lines, "dry run: nothing was sent"])


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"
