"""The tables of a search, as text cells: HTML, Markdown and the terminal print the same ones."""

from loadkit.analysis.knee.curve import LoadPoint, load_curve
from loadkit.analysis.knee.findings import TURN_UP, Estimate
from loadkit.analysis.knee.result import KneeResult
from loadkit.analysis.knee.steps import Step
from loadkit.report import numbers
from loadkit.report.knee import words
from loadkit.report.tables import Table


def found(result: KneeResult) -> Table:
    """The numbers of the search, each under its own name with its interval and its horizon."""
    findings, name = result.findings, words.metric(result)
    base = findings.baseline
    low = numbers.seconds(base.p99_s) if base else numbers.UNKNOWN
    rows = (
        _row("capacity at the SLO", f"{words.promise(result)}", findings.capacity),
        _row(
            "turn-up",
            f"p99 of {name} = {TURN_UP:g} × its value without load, {low}",
            findings.turn_up,
        ),
        _row("turn-up of queue wait", f"p99 of queue wait = {low}", findings.queue_turn_up),
        _row("saturation", "completed when more is offered", findings.saturation),
    )
    columns = (
        "<number", "<where", "rate", "95 % interval", "utilisation", "95 % interval", "<horizon",
    )  # fmt: skip
    note = (
        "Rates count "
        + words.load(result).rstrip(",")
        + ". Utilisation = rate / saturation of the same load. Horizon: what the number speaks for."
    )
    return Table("What was found", columns, rows, note)


def _row(name: str, where: str, one: Estimate) -> tuple[str, ...]:
    use = one.utilisation
    reason = "" if one.rps is not None else one.status
    horizon = "while overloaded" if name == "saturation" else "the long run"
    return (
        name,
        where,
        reason or numbers.rate(one.rps),
        _interval(one),
        numbers.share(use[0]) if use else numbers.UNKNOWN,
        f"{numbers.share(use[1])} to {numbers.share(use[2])}" if use else numbers.UNKNOWN,
        numbers.UNKNOWN if reason else horizon,
    )


def _interval(one: Estimate) -> str:
    low, high = one.low_rps, one.high_rps
    if low is not None and high is not None:
        return f"{numbers.level(low)} to {numbers.level(high)}"
    if low is not None:
        return f"above {numbers.level(low)}"
    return numbers.UNKNOWN if high is None else f"below {numbers.level(high)}"


def sharing(result: KneeResult) -> Table | None:
    """The lane with the others in the background, and alone."""
    alone = result.alone
    if alone is None:
        return None
    rows = tuple(
        (
            name,
            numbers.rate(one.findings.capacity.rps),
            _interval(one.findings.capacity),
            numbers.rate(one.findings.turn_up.rps),
            numbers.rate(one.findings.saturation.rps),
            numbers.share(_slots(one.nearest_to_capacity)),
        )
        for name, one in (("with the other lanes", result), ("alone", alone))
    )
    columns = ("<", "capacity", "95 % interval", "turn-up", "saturation", "slots in use there")
    cost = result.sharing
    use = None if cost is None else cost.utilisation
    note = (
        f"With the others it reaches {numbers.share(use)} of its saturation alone." if use else ""
    )
    return Table("What sharing costs", columns, rows, note)


def _slots(step: Step | None) -> float | None:
    return None if step is None else step.use.slots


def steps(result: KneeResult) -> Table:
    """In the order in which they were made."""
    points = load_curve(result.steps, result.findings)
    by_step = {id(point.step): point for point in points}
    rows = tuple(
        _step(number, by_step[id(step)]) for number, step in enumerate(result.steps, start=1)
    )
    columns = (
        "step", "<role", "rate", "utilisation", "requests", "missed", "p50", "p99",
        "queue wait p99", "TPOT p50", "completed", "refused", "preemptions", "slots", "KV", "tokens",
        "<queue", "<step is",
    )  # fmt: skip
    note = (
        f"p50 and p99 of {words.metric(result)}, of requests that arrived in the measured part of a step; a "
        "dash: the quantile lies among requests without an answer. Slots, KV and tokens: mean share in use."
    )
    return _without_empty(Table("Every step", columns, rows, note))


def _without_empty(table: Table) -> Table:
    """Columns that hold nothing but zeros and dashes tell nothing."""
    empty = {"0", numbers.UNKNOWN}
    kept = [
        place
        for place in range(len(table.columns))
        if table.columns[place] == "missed" or not all(row[place] in empty for row in table.rows)
    ]
    return table._replace(
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


def _step(number: int, point: LoadPoint) -> tuple[str, ...]:
    step = point.step
    return (
        str(number),
        step.plan.role,
        numbers.rate(step.plan.rate_rps),
        numbers.share(point.utilisation),
        numbers.count(point.requests),
        numbers.count(point.missed),
        numbers.seconds(point.latency.p50_s),
        numbers.seconds(point.latency.p99_s),
        numbers.seconds(point.queue_wait.p99_s),
        numbers.seconds(point.tpot.p50_s),
        numbers.rate(step.completed_rps),
        numbers.count(step.rejected),
        numbers.count(step.preemptions),
        numbers.share(step.use.slots),
        numbers.share(step.use.kv),
        numbers.share(step.use.token_budget),
        step.stability,
        "valid" if step.valid else "invalid",
    )
