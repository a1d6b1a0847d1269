"""The files of a report: whole, self-contained, safe to open, and true to the run."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from loadkit.analysis import summarize
from loadkit.errors import RunError
from loadkit.model import RequestRecord, Send, ServerMetric
from loadkit.records import RunDir
from loadkit.report import ReportPaths, terminal_summary, write_report
from synthetic_run import answered, failed, sends_of, series, worker_sample, write_run

M = ServerMetric
HOSTILE = "<script>alert(1)</script>\"'| [x](http://evil)"
VOID = {"meta", "link", "br", "img", "input", "hr"}


def full_rows() -> list[RequestRecord]:
    """Two lanes, every kind of ending, all that an engine can tell."""
    told = {
        "queue_wait_s": 0.05,
        "queue_wait_source": "response",
        "prefill_s": 0.04,
        "preemptions": 1,
    }
    rows = [answered(f"i{i}", i * 0.2, tenant=f"t{i % 3}", **told) for i in range(150)]
    rows += [
        answered(f"b{i}", i * 0.6, lane="batch", deadline_s=i * 0.6 + (0.1 if i % 2 else 1.0))
        for i in range(50)
    ]
    return [*rows, failed("r", 3.0, "rejected"), failed("t", 4.0, "timeout")]


def full_run(path: Path, **manifest: Any) -> RunDir:
    told = series(M.REQUESTS_RUNNING, [2] * 30) + series(M.REQUESTS_WAITING, [1] * 30)
    told += series(M.KV_USAGE_RATIO, [0.5] * 30) + series(M.PREEMPTIONS_TOTAL, range(30))
    told += [worker_sample(float(t), M.WORKER_CPU_RATIO, 0.2) for t in range(30)]
    slo = {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.5}
    return write_run(path, full_rows(), told, **{"slos": (slo,), **manifest})


def reported(run: RunDir) -> ReportPaths:
    return write_report(run, summarize(run))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    return reported(full_run(tmp_path_factory.mktemp("full") / "run"))


class Balance(HTMLParser):
    """Fails on a tag that is closed wrongly or not at all; collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script" or any(name.startswith("on") for name, _ in attrs)
        self.fetched += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(path: Path) -> Balance:
    parser = Balance()
    parser.feed(path.read_text("utf-8"))
    assert parser.open == []
    return parser


def test_the_page_is_well_formed_has_no_script_and_fetches_nothing(full: ReportPaths) -> None:
    page = parsed(full.html)
    assert page.scripts == 0
    assert all(url.startswith(("#", "data:")) for url in page.fetched)
    assert not re.search(r"url\((?!#)|@import", full.html.read_text("utf-8"))


def test_the_page_opens_with_the_verdict(full: ReportPaths) -> None:
    text = re.sub(r"<style>.*?</style>", "", full.html.read_text("utf-8"), flags=re.DOTALL)
    assert text.index(">VALID<") < text.index(">Lanes<") < text.index("What happened, over time")


def test_every_chart_is_in_the_page_and_beside_it(full: ReportPaths) -> None:
    assert [png.name for png in full.png] == [
        "timeline.png",
        "distributions.png",
        "time_parts.png",
        "deadlines.png",
    ]
    assert all(png.read_bytes().startswith(b"\x89PNG") for png in full.png)
    assert full.html.read_text("utf-8").count("<svg") == 4


def test_ids_inside_the_page_are_unique(full: ReportPaths) -> None:
    ids = re.findall(r' id="([^"]*)"', full.html.read_text("utf-8"))
    assert len(ids) == len(set(ids))


def test_summary_json_has_the_keys_that_scripts_build_on(full: ReportPaths) -> None:
    found = json.loads(full.json.read_text("utf-8"))
    assert {"run", "valid", "reasons", "lanes", "send_lag_s", "preemptions", "ledger"} <= set(found)
    lane = found["lanes"]["interactive"]
    wanted = {"offered", "completed", "statuses", "goodput_share", "deadline_share", "ttft_s"}
    assert wanted | {"queue_wait_s", "prefill_s", "tpot_s", "itl_s", "e2e_s"} <= set(lane)
    assert {"p50", "p90", "p99", "max"} <= set(lane["ttft_s"])
    assert {"p50", "p99", "source"} <= set(lane["queue_wait_s"])
    assert {"p50", "p99", "max"} <= set(found["send_lag_s"])
    assert {"name", "client", "server"} <= set(found["ledger"][0])
    assert lane["ttft_s"]["p50"] == pytest.approx(0.101)
    assert (lane["offered"], lane["completed"], lane["deadline_share"]) == (152, 150, None)
    assert found["lanes"]["batch"]["deadline_share"] == 0.5


def test_text_from_elsewhere_is_escaped_in_html_and_markdown(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, lane=HOSTILE, tenant=HOSTILE) for i in range(40)]
    rows.append(failed("d", 1.0, "dropped", error=HOSTILE, lane=HOSTILE))
    trace = {"source": HOSTILE}
    paths = reported(write_run(tmp_path / "run", rows, trace=trace, ended_why=HOSTILE))
    assert parsed(paths.html).scripts == 0
    assert html.escape("<script>alert(1)</script>") in paths.html.read_text("utf-8")
    written = paths.markdown.read_text("utf-8")
    assert "<script>" not in re.sub(r"\\<", "", written)
    assert not re.search(r"(?<!\\)\[x", written)


def test_why_requests_failed_and_what_was_noted_is_told_everywhere(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1) for i in range(9)]
    rows += [
        failed(f"x{i}", 1.0, "error", http_status=400, error=f"prompt of {900 + i} tokens <b>")
        for i in range(3)
    ]
    rows.append(failed("t", 1.0, "timeout", error="y" * 5000))
    events = ({"t_s": 2.0, "what": "6 of 128 requests are <longer>"}, *[{"what": "z"}] * 90)
    paths = reported(write_run(tmp_path / "run", rows, events=events))
    found = json.loads(paths.json.read_text("utf-8"))["failures"]
    assert found[0] == {
        "lane": "interactive",
        "status": "error",
        "http_status": 400,
        "error": "prompt of 900 tokens <b>",
        "count": 3,
    }
    assert (found[1]["status"], found[1]["http_status"], found[1]["count"]) == ("timeout", None, 1)
    assert len(found[1]["error"]) < 250
    page, written = paths.html.read_text("utf-8"), paths.markdown.read_text("utf-8")
    before_provenance = page[: page.index("Provenance")]
    assert "prompt of 900 tokens &lt;b&gt;" in page
    assert "6 of 128 requests are &lt;longer&gt;" in before_provenance
    assert before_provenance.count("<li>") < 40
    assert "| 400 | 3 | prompt of 900 tokens \\<b\\> |" in written
    assert "6 of 128 requests are \\<longer\\>" in written


def test_a_dollar_sign_in_a_lane_is_no_formula(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, lane="$\\frac{1$") for i in range(5)]
    assert reported(write_run(tmp_path / "run", rows)).png


def test_a_killed_run_is_reported_with_what_there_is(tmp_path: Path) -> None:
    rows = full_rows()
    planned = [*sends_of(rows), Send("lost", 2.0, "interactive", 10, 10)]
    run = write_run(
        tmp_path / "run", rows, sends=planned, state="running", ended_s=None, ended_why=None
    )
    paths = reported(run)
    assert json.loads(paths.json.read_text("utf-8"))["valid"] is False
    page = paths.html.read_text("utf-8")
    assert ">INVALID<" in page
    assert "its command was killed" in page
    assert "1 of 203 requests that were due have no row" in page


@pytest.mark.parametrize("rows", [[], [failed("a", 1.0, "error")]], ids=["no row", "no answer"])
def test_a_run_without_answers_still_has_a_report(
    tmp_path: Path, rows: list[RequestRecord]
) -> None:
    paths = reported(write_run(tmp_path / "run", rows))
    parsed(paths.html)
    assert paths.markdown.read_text("utf-8").startswith("## ")


def test_a_report_can_be_made_again_and_drops_charts_that_no_longer_apply(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [answered(str(i), i * 0.1) for i in range(9)])
    first = reported(run).json.read_bytes()
    (run.report_dir / "old.png").write_bytes(b"")
    assert reported(run).json.read_bytes() == first
    assert sorted(p.name for p in run.report_dir.iterdir()) == [
        "distributions.png",
        "index.html",
        "summary.json",
        "summary.md",
        "time_parts.png",
        "timeline.png",
    ]


def test_a_report_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path) -> None:
    run = full_run(tmp_path / "run")
    run.report_dir.write_text("a file in the way")
    with pytest.raises(RunError) as raised:
        reported(run)
    assert "report" in raised.value.message
    assert raised.value.hint


def test_the_markdown_is_short_enough_for_a_pull_request(full: ReportPaths) -> None:
    written = full.markdown.read_text("utf-8")
    assert written.startswith("## VALID: run\n")
    unfolded = re.sub(r"<details>.*?</details>", "", written, flags=re.DOTALL)
    assert sum(map(bool, unfolded.splitlines())) < 30
    grids = [block.splitlines() for block in written.split("\n\n") if block.startswith("|")]
    assert all(len({line.count(" | ") for line in lines}) == 1 for lines in grids)


@pytest.mark.parametrize("lanes", [1, 2, 30])
def test_the_terminal_summary_is_ten_lines_at_most(tmp_path: Path, lanes: int) -> None:
    rows = [answered(str(i), i * 0.1, lane=f"lane{i % lanes:02}", lag_s=0.3) for i in range(60)]
    rows.append(failed("d", 1.0, "dropped", error="cap", lane="lane00"))
    events = tuple({"t_s": 1.0, "what": f"worker {i} lost"} for i in range(9))
    run = write_run(tmp_path / "run", rows, events=events, state="failed")
    lines = terminal_summary(summarize(run)).plain.splitlines()
    assert len(lines) <= 10
    assert lines[0].startswith("INVALID")
    assert lines[-1].endswith(str(Path("run", "report", "index.html")))


def test_the_markdown_tells_what_ran_and_how_it_can_be_done_again(full: ReportPaths) -> None:
    written = full.markdown.read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "model m; engine vllm; replayed speedup 10x; workers 1, seed 1" in written
    assert "| Command | loadkit replay day.parquet --target" in written
    assert "Little's law over the whole run: " in written
    assert "<summary>Largest tenants</summary>" in written
    (lane,) = [line for line in written.splitlines() if line.startswith("| interactive | 152 ")]
    assert "| 40.0 ms |" in lane, "the prefill that the engine told"


def test_answers_that_were_not_streamed_have_no_token_times_and_the_report_says_so(
    tmp_path: Path,
) -> None:
    whole = {"first_token_s": None, "last_token_s": None, "chunk_offsets_s": None}
    rows = [answered(str(i), i * 0.1, **whole) for i in range(9)]
    target = {"url": "http://127.0.0.1:8000", "stream": False}
    paths = reported(write_run(tmp_path / "run", rows, target=target))
    assert "not streamed: no token times" in paths.html.read_text("utf-8")
    assert "TTFT and TPOT are \N{EN DASH}" in paths.markdown.read_text("utf-8")


def judged_slos(tmp_path: Path, *lanes: str) -> tuple[str, str, str]:
    """Terminal, Markdown and JSON of 8 fast answers and 2 refusals, by a 2 s p90 SLO per lane."""
    rows = [answered(str(i), i * 0.1) for i in range(8)]
    rows += [failed(f"x{i}", 1.0, "rejected") for i in range(2)]
    slos = tuple(
        {"lane": lane, "metric": "ttft", "quantile": 0.9, "threshold_s": 2.0} for lane in lanes
    )
    run = write_run(tmp_path / "run", rows, slos=slos)
    texts = terminal_summary(summarize(run)).plain, reported(run).markdown.read_text("utf-8")
    terminal, written = (text.replace("\N{NO-BREAK SPACE}", " ") for text in texts)
    return terminal, written, (run.report_dir / "summary.json").read_text("utf-8")


def test_an_slo_missed_by_refusals_says_that_what_was_measured_are_the_answers(
    tmp_path: Path,
) -> None:
    terminal, written, _ = judged_slos(tmp_path, "interactive")
    assert "not met: interactive TTFT p90 ≤ 2 s; 101 ms over answered requests, 80.00%" in terminal
    assert "measured (answered)" in written
    assert "NOT met | 101 ms | 80.0 %" in written


def test_an_slo_of_a_lane_that_is_missing_cannot_be_told_anywhere(tmp_path: Path) -> None:
    terminal, written, found = judged_slos(tmp_path, "nobody")
    assert "SLOs     cannot be told: nobody" in terminal
    assert "cannot be told" in written
    assert "not met" not in (terminal + written).lower()
    assert json.loads(found)["slos"][0]["met"] is None


def test_the_sign_for_few_values_is_explained_once_in_the_terminal(tmp_path: Path) -> None:
    terminal, _, _ = judged_slos(tmp_path, "interactive")
    assert terminal.count("† fewer than 100 values") == 1


def test_the_terminal_summary_names_each_lane(tmp_path: Path) -> None:
    text = terminal_summary(summarize(full_run(tmp_path / "run"))).plain
    assert "interactive  98.7 % ok, TTFT p50 101 ms p99 101 ms" in text.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "SLOs     all 1 met" in text
