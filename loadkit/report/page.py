"""The HTML page: one file, no script, nothing loaded from anywhere."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loadkit.analysis import RunSummary
from loadkit.report import tables, words
from loadkit.report.figures import Chart, lane_colours
from loadkit.report.glossary import TERMS


def page(summary: RunSummary, charts: Sequence[Chart]) -> str:
    """Everything that is not drawn by ourselves is escaped: names and errors come from elsewhere."""
    template = environment().get_template("report.html.j2")
    return template.render(
        summary=summary,
        verdict=words.verdict(summary),
        headline=words.headline(summary),
        answer=words.answer(summary),
        events=words.events(summary),
        facts=words.what_ran(summary),
        command=" ".join(summary.manifest.command),
        colours=lane_colours([lane.lane for lane in summary.lanes]),
        charts={chart.name: (chart, Markup(chart.svg)) for chart in charts},  # noqa: S704 (our own SVG)
        tables=_tables(summary),
        terms=TERMS,
        provenance=json.dumps(asdict(summary.manifest), indent=2, default=str, ensure_ascii=False),
    )


def _tables(summary: RunSummary) -> dict[str, tables.Table | None]:
    left_out = summary.tenants_left_out
    tenants = tables.at_a_glance(summary.tenants, "Tenants") if summary.tenants else None
    if tenants and left_out:
        tenants = tenants._replace(
            note=f"{tenants.note} {left_out} smaller tenants are left out.".strip()
        )
    return {
        "lanes": tables.at_a_glance(summary.lanes),
        "slos": tables.slos(summary) if summary.slos else None,
        "statuses": tables.statuses(summary),
        "failures": tables.failures(summary),
        "latencies": tables.latencies(summary),
        "tenants": tenants,
        "server": tables.server(summary),
        "littles_law": tables.littles_law(summary),
        "ledger": tables.ledger(summary),
        "checks": tables.checks(summary),
    }


def environment() -> Environment:
    return Environment(
        loader=PackageLoader("loadkit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
