"""The HTML page of a comparison: one file, no script, nothing loaded from anywhere."""

from collections.abc import Sequence
from pathlib import PurePath

from markupsafe import Markup

from loadkit import __version__
from loadkit.analysis.comparison import Comparison
from loadkit.report import numbers
from loadkit.report.comparison import tables, words
from loadkit.report.comparison.glossary import terms
from loadkit.report.comparison.shared import arm_colours
from loadkit.report.figures import Chart, lane_colours
from loadkit.report.page import environment
from loadkit.report.words import transforms_text


def comparison_page(comparison: Comparison, charts: Sequence[Chart], command: str) -> str:
    """Labels, names and reasons come from elsewhere and are escaped."""
    template = environment().get_template("comparison.html.j2")
    return template.render(
        comparison=comparison,
        title=title(comparison),
        headline=words.headline(comparison),
        conclusion=words.conclusion(comparison),
        facts=_facts(comparison),
        command=command,
        colours={**lane_colours(comparison.lanes), **arm_colours(comparison)},
        charts={chart.name: (chart, Markup(chart.svg)) for chart in charts},  # noqa: S704 (our own SVG)
        lanes=[tables.lane(comparison, lane) for lane in comparison.lanes],
        whole=tables.whole(comparison),
        settings=tables.settings(comparison),
        slos=tables.slos(comparison),
        compared=tables.compared(comparison),
        differences=[tables.differences(comparison, arm) for arm in comparison.arms[1:]],
        terms=terms(comparison),
        version=__version__,
    )


def title(comparison: Comparison) -> str:
    """`fifo, priority and 5 more on lanes.csv`."""
    labels = [arm.label for arm in comparison.arms]
    shown = labels if len(labels) <= 3 else [*labels[:2], f"{len(labels) - 2} more"]
    trace = PurePath(str(comparison.baseline.runs[0].manifest.trace.get("source", "a trace"))).name
    return f"{', '.join(shown[:-1])} and {shown[-1]} on {trace}"


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    first = comparison.baseline.runs[0]
    manifest = first.manifest
    runs = sum(len(arm.runs) for arm in comparison.arms)
    offered = ", ".join(f"{numbers.count(n)} {lane}" for lane, n in first.offered.items())
    schedule = str(manifest.schedule.get("sha256") or "")[:16]
    same = (
        "the same instants, not the same work"
        if comparison.on_other_work
        else "the same to every run"
    )
    transforms = {k: v for k, v in manifest.transforms.items() if k != "batch_service"}  # a setting
    pairs = (
        ("Trace", str(manifest.trace.get("source", ""))),
        ("Replayed", transforms_text(transforms)),
        ("Offered", f"{offered}; {same}"),
        ("Schedule", schedule and f"sha256 {schedule}…"),
        ("Runs", f"{runs}, of {len(comparison.arms)} labels"),
        ("Baseline", comparison.baseline.label),
        ("The same in all", tables.shared_settings(comparison)),
    )
    return [(name, value) for name, value in pairs if value]
