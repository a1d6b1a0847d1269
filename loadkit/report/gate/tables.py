"""The tables of a gate, as text cells."""

from loadkit.analysis.gate import Gate, Result
from loadkit.report.gate import words
from loadkit.report.tables import Table

NOTE = (
    "✗ regression, ✓ none beyond what is accepted, ? not settled by these pairs, ! invalid. Change: mean "
    "over the pairs of runs, with its 95 % interval (Student's t over pairs); false alarms are held to 5 % "
    "for all numbers together (Hochberg)."
)


def results(found: Gate) -> Table:
    rows = tuple(_row(result) for result in found.results)
    columns = (
        "<", "<load", "<lane", "<metric", "base", "new", "change", "95 % interval", "accepted",
        "<verdict", "<why",
    )  # fmt: skip
    return Table("Every number", columns, rows, NOTE)


def short(found: Gate) -> Table:
    """For a pull request."""
    full = results(found)
    kept = (0, 1, 2, 3, 4, 5, 6, 7, 9)
    return Table(
        full.title,
        tuple(full.columns[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in full.rows),
        NOTE,
    )


def _row(result: Result) -> tuple[str, ...]:
    measure = result.rule.measure
    because = f"{result.why}; in {result.cause}" if result.cause else result.why
    return (
        words.MARKS[result.verdict],
        result.load,
        result.lane,
        measure.title,
        words.value(result.base, measure.unit),
        words.value(result.new, measure.unit),
        words.change(result),
        words.interval(result),
        f"{result.rule.delta * 100:g}\N{NO-BREAK SPACE}%",
        words.verdict(result),
        because,
    )


def runs(found: Gate) -> Table:
    rows = tuple(
        (
            load.name,
            arm.label,
            run.path.name,
            str(run.manifest.created_utc),
            " ".join(
                str(run.manifest.target[key])
                for key in ("engine", "version", "model")
                if run.manifest.target.get(key)
            ),
            load.sha256[:12],
            "valid" if run.validity.valid else run.validity.reasons[0],
        )
        for load in found.loads
        for arm in (load.base, load.new)
        for run in arm.runs
    )
    columns = ("<load", "<release", "<folder", "<made", "<server", "<schedule", "<run is")
    return Table("Which runs", columns, rows)
