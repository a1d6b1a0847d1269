"""The HTML page of a search: one file, no script, nothing loaded from anywhere."""

from collections.abc import Sequence
from pathlib import PurePath

from markupsafe import Markup

from loadkit import __version__
from loadkit.analysis.knee.result import KneeResult
from loadkit.report import numbers
from loadkit.report.figures import Chart
from loadkit.report.knee import tables, words
from loadkit.report.knee.glossary import terms
from loadkit.report.page import environment


def knee_page(result: KneeResult, charts: Sequence[Chart]) -> str:
    """Names of lanes, targets and models come from elsewhere and are escaped."""
    template = environment().get_template("knee.html.j2")
    return template.render(
        title=title(result),
        headline=words.headline(result),
        answer=words.answer(result),
        cautions=result.cautions,
        facts=facts(result),
        found=tables.found(result),
        sharing=tables.sharing(result),
        steps=tables.steps(result),
        charts={chart.name: (chart, Markup(chart.svg)) for chart in charts},  # noqa: S704 (our own SVG)
        colours={},
        terms=terms(result),
        version=__version__,
    )


def title(result: KneeResult) -> str:
    """`interactive TTFT p99 ≤ 500 ms on day.parquet`."""
    slo = result.slo
    trace = PurePath(str(result.asked.get("trace") or "a trace")).name
    promised = f"p{slo.quantile * 100:g} ≤ {numbers.seconds(slo.threshold_s)}"
    return f"{slo.lane} {words.metric(result)} {promised} on {trace}"


def facts(result: KneeResult) -> list[tuple[str, str]]:
    asked, search = result.asked, result.asked["search"]
    server = result.manifests[0].target if result.manifests else {}
    engine = " ".join(str(server[key]) for key in ("engine", "version", "model") if server.get(key))
    soak = f", soak {numbers.seconds(search['soak_s'])}" if search["soak_s"] else ""
    length = f"{search['warm_s']:g} s to fill and {search['measure_s']:g} s measured"
    way = "a fixed ladder" if search["rates_rps"] else "guided"
    minutes_s = sum(manifest.ended_s or 0.0 for manifest in result.manifests)
    machine = result.manifests[0].machine if result.manifests else {}
    pairs = (
        ("Target", str(asked.get("target") or "")),
        ("Server", engine),
        ("Trace", f"{asked.get('trace')}, sha256 {str(asked.get('trace_sha256') or '')[:16]}…"),
        ("Load", words.load(result).rstrip(",")),
        ("Search", f"{way}, {len(result.steps)} steps of {length}{soak}, seed {asked.get('seed')}"),
        ("Took", f"{numbers.seconds(minutes_s)} of server time"),
        ("Set", ", ".join(f"{key} {value}" for key, value in _settings(result))),
        ("Machine", ", ".join(f"{key} {value}" for key, value in machine.items())),
        ("Ended", result.ended_why or "not yet"),
    )
    return [(name, value) for name, value in pairs if value]


def _settings(result: KneeResult) -> list[tuple[str, str]]:
    told = result.asked.get("settings") or {}
    return [(key, str(value)) for key, value in told.items() if not isinstance(value, dict)]
