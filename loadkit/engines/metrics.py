"""Prometheus text to canonical samples.

What an engine does not expose is absent, never 0. For every metric that adds up, the sum over its
label sets is the server's total: a series that already is a total of others replaces them, and
labels that only split a number are summed away.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from loadkit.engines.vocabulary import VOCABULARIES, Source, Sources
from loadkit.model import ServerMetric as M

MAX_LINE_CHARS = 16_384
_MAX_LABEL_CHARS = 200
_KEPT_LABELS = frozenset(
    {
        "engine",
        "dp_rank",
        "model_name",
        "reason",
        "lane",
        "tenant",
        "finished_reason",
        "source",
        "cache_source",
    }
)
_TOTAL_LABELS = {"priority": "", "cache_source": "total"}
"""SGLang: the series with this value is the sum of the others of its name."""
_RANK_LABELS = ("tp_rank", "pp_rank")
_EMULATED = (M.CLOCK_LATENESS_S, M.CLOCK_LATENESS_MAX_S)
_NOT_ADDITIVE = frozenset({M.KV_USAGE_RATIO, M.KV_BLOCK_TOKENS, *_EMULATED})

_Labels = Mapping[str, str]
_Series = list[tuple[_Labels, float]]


class Sample(NamedTuple):
    name: str
    """A `ServerMetric`."""
    labels: str
    """JSON object with sorted keys."""
    value: float


class Exposition(NamedTuple):
    samples: list[Sample]
    problem: str | None
    """Why there are none, or what could not be read."""


def parse_metrics(engine: str, text: str) -> Exposition:
    """The canonical samples in one answer of `/metrics`. Never raises: see `problem`."""
    sources = VOCABULARIES.get(engine)
    if sources is None:
        return Exposition([], f"no metrics are known for engine {engine}")
    names = {s.name for alternatives in sources.values() for some in alternatives for s in some}
    series, malformed = _read(text, names)
    samples = [
        sample
        for metric, wanted in sources.items()
        for sample in _canonical(metric, wanted, series)
    ]
    return Exposition(samples, _problem(engine, text, samples, malformed))


def absent(engine: str, present: Collection[str]) -> dict[str, str]:
    """Each canonical server metric that is not among `present`, with the reason."""
    known = VOCABULARIES.get(engine, {})
    return {
        metric.value: (
            f"not exposed by this server so far (looked for {_spelled(known[metric])})"
            if metric in known
            else f"{engine} has no such metric"
        )
        for metric in M
        if metric.value not in present
        and metric not in (M.SCRAPE_OK, *_EMULATED)
        and not metric.startswith("worker_")
    }


def metric_names(text: str) -> Iterator[str]:
    """The name on every sample line, normalised; the lines themselves are not checked."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield _normal(line)


def _read(text: str, wanted: Collection[str]) -> tuple[Mapping[str, _Series], int]:
    """The wanted series by normalised name, and the number of lines that could not be read."""
    series: dict[str, _Series] = defaultdict(list)
    malformed = 0
    for line in text.splitlines():
        # Most lines are buckets of histograms: only what is wanted is worth a full parse.
        name = "" if line.startswith("#") else _normal(line)
        if name not in wanted:
            continue
        sample = _parsed(line)
        if sample is None:
            malformed += 1
        else:
            series[name].append(sample)
    return series, malformed


def _normal(line: str) -> str:
    """`ray_vllm_x{…} 1`, `vllm:x 1` → `vllm_x`."""
    head = line[:256].partition("{")[0].split(maxsplit=1)
    return head[0].replace(":", "_").removeprefix("ray_") if head else ""


def _parsed(line: str) -> tuple[_Labels, float] | None:
    # Slow to import, and only a scraping process needs it.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    if len(line) > MAX_LINE_CHARS:
        return None
    try:
        # One line at a time: a bad line then costs itself, not the whole answer.
        family = next(iter(text_string_to_metric_families(line)))
    except (ValueError, IndexError, StopIteration):
        return None
    return family.samples[0].labels, float(family.samples[0].value)


def _canonical(metric: M, wanted: Sources, series: Mapping[str, _Series]) -> Iterator[Sample]:
    for alternative in wanted:
        values = [value for source in alternative for value in _values(source, series)]
        if values:
            merged = _merged(metric, values)
            yield from (Sample(metric.value, labels, value) for labels, value in merged.items())
            return


def _values(source: Source, series: Mapping[str, _Series]) -> Iterator[tuple[_Labels, float]]:
    for labels, value in _without_parts(series.get(source.name, [])):
        if source.where and labels.get(source.where[0]) != source.where[1]:
            continue
        found = value if source.label is None else _number(labels.get(source.label))
        if found is not None and math.isfinite(found):
            yield labels, found


def _without_parts(series: _Series) -> _Series:
    """Without the series that another of the same name already contains."""
    for label, total in _TOTAL_LABELS.items():
        totals = [one for one in series if one[0].get(label) == total]
        series = totals or series
    # Ranks of one model replica repeat each other; data-parallel ranks add up.
    return [
        one
        for one in series
        if "dp_rank" in one[0] or all(one[0].get(rank, "0") == "0" for rank in _RANK_LABELS)
    ]


def _merged(metric: M, values: list[tuple[_Labels, float]]) -> dict[str, float]:
    merged: dict[str, float] = {}
    for labels, value in values:
        key = _label_json(labels)
        if key not in merged:
            merged[key] = value
        elif metric in _NOT_ADDITIVE:
            merged[key] = max(merged[key], value)
        else:
            merged[key] += value
    return merged


def _label_json(labels: _Labels) -> str:
    kept: dict[str, Any] = {
        name: value[:_MAX_LABEL_CHARS] for name, value in labels.items() if name in _KEPT_LABELS
    }
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _problem(engine: str, text: str, samples: list[Sample], malformed: int) -> str | None:
    if not samples:
        lines = sum(1 for _ in metric_names(text))
        return (
            f"none of {engine}'s metrics are in the answer ({lines} lines, {malformed} malformed)"
        )
    return f"{malformed} lines could not be read" if malformed else None


def _spelled(sources: Sources) -> str:
    return " or ".join(dict.fromkeys(s.name for alternative in sources for s in alternative))
