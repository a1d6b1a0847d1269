"""`loadkit compare`, its files and its words, as a reader meets them."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from comparison_runs import gauges, repeats, rows, run, target
from loadkit import units
from loadkit.analysis.comparison import compare
from loadkit.cli import app
from loadkit.errors import InputError, RunError
from loadkit.report import ReportPaths
from loadkit.report.comparison import charts, conclusion, terminal_comparison, write_comparison
from loadkit.report.comparison.words import headline
from synthetic_run import write_run

HOSTILE = "<script>alert(1)</script>\"'| [x](http://evil)"
VOID = {"meta", "link", "br", "img", "input", "hr"}
SLO = "interactive:queue_wait:p99:150ms"


class Page(HTMLParser):
    """Fails on a tag that is closed wrongly; collects what would run or be fetched."""

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


def simulated(folder: Path) -> list[Path]:
    """p99 waits of 198, 99 and 148.5 ms against batch gaps of 0.5, 0.8 and 1.2 s; the last is beaten."""
    made = (("fifo", 2.0, 0.5), ("reserve:8", 1.0, 0.8), ("silly", 1.5, 1.2))
    for name, factor, gap_s in made:
        write_run(folder / name, rows(factor, gap_s, "sim"), gauges(), target=target(name))
    return [folder / name for name, _, _ in made]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    folder = tmp_path_factory.mktemp("compared")
    found = compare(simulated(folder), slos=[units.slo(SLO)])
    return write_comparison(folder / "out", found, "loadkit compare a b c")


def text_of(path: Path) -> str:
    """What a reader sees, tags gone."""
    page = re.sub(r"<style>.*?</style>", "", path.read_text("utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_page_is_well_formed_has_no_script_and_fetches_nothing(written: ReportPaths) -> None:
    page = Page()
    page.feed(written.html.read_text("utf-8"))
    assert (page.open, page.scripts) == ([], 0)
    assert all(url.startswith(("#", "data:")) for url in page.fetched)


def test_the_page_opens_with_what_to_run_and_what_it_costs(written: ReportPaths) -> None:
    text = text_of(written.html)
    answer = "reserve:8 meets every SLO at the least batch cost."
    assert text.index(answer) < text.index("Lane interactive") < text.index("Every difference")
    assert "37.4 % less than fifo" in text  # 1 - 10.041 / 16.041
    assert "silly by reserve:8" in text


def test_every_chart_is_in_the_page_and_beside_it(written: ReportPaths) -> None:
    assert [png.name for png in written.png] == [
        "trade_off.png",
        "tail.png",
        "gaps.png",
        "occupancy.png",
    ]
    assert all(png.read_bytes().startswith(b"\x89PNG") for png in written.png)
    assert written.html.read_text("utf-8").count("<svg") == 4


def test_an_slo_on_the_longest_gap_is_compared_although_no_tail_can_be_drawn_of_it(
    tmp_path: Path,
) -> None:
    found = compare(simulated(tmp_path), slos=[units.slo("interactive:stall:p99:50ms")])
    files = write_comparison(tmp_path / "out", found)
    assert "interactive longest gap p99 ≤ 50" in text_of(files.html)
    assert "tail.png" not in [png.name for png in files.png]


def test_markdown_and_json_tell_the_same(written: ReportPaths) -> None:
    told = json.loads(written.json.read_text())
    assert told["choice"]["label"] == "reserve:8"
    assert told["conclusion"].startswith("2 of 3 meet every SLO")
    assert written.markdown.read_text().startswith("## reserve:8: fifo, reserve:8 and silly on day")


def test_a_hostile_label_stays_text_everywhere(tmp_path: Path) -> None:
    paths = simulated(tmp_path)[:2]
    found = compare(paths, labels=[HOSTILE, "$x_1$"])
    written = write_comparison(tmp_path / "out", found, HOSTILE)
    page = Page()
    page.feed(written.html.read_text("utf-8"))
    assert page.scripts == 0
    assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(http", written.markdown.read_text())
    terminal_comparison(found, tmp_path)


def test_it_makes_its_folder_again_but_never_writes_over_anything_else(tmp_path: Path) -> None:
    found = compare(simulated(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "comparison.json").write_text("{}")
    write_comparison(tmp_path / "out", found)
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())
    with pytest.raises(RunError, match="holds no comparison"):
        write_comparison(tmp_path / "fifo", found)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_the_command_prints_the_answer_and_a_table_for_each_lane(tmp_path: Path) -> None:
    result = command(*simulated(tmp_path), "--slo", SLO, "-o", tmp_path / "out")
    assert (result.exit_code, result.output.split()[0]) == (0, "reserve:8")
    assert "Lane interactive" in result.output
    assert "Lane batch" in result.output
    assert (tmp_path / "out" / "index.html").exists()


def test_json_is_the_whole_standard_output(tmp_path: Path) -> None:
    result = command(*simulated(tmp_path), "--json", "-o", tmp_path / "out")
    told = json.loads(result.stdout)
    assert [arm["label"] for arm in told["runs"]] == ["fifo", "reserve:8", "silly"]
    assert told["exact"]


def test_a_folder_of_simulated_policies_is_one_argument(tmp_path: Path) -> None:
    simulated(tmp_path / "policies")
    result = command(tmp_path / "policies", "--json", "-o", tmp_path / "out")
    assert len(json.loads(result.stdout)["runs"]) == 3


def test_exit_codes_are_those_that_the_help_tells(tmp_path: Path) -> None:
    a, b, _ = simulated(tmp_path)
    run(tmp_path / "broken", "x", 1.0, state="failed", ended_why="no disk")
    out = ("-o", tmp_path / "out")
    strict = "interactive:queue_wait:p99:1ms"
    assert command(a, b, *out).exit_code == 1  # batch is worse
    assert command(a, b, "--slo", strict, *out).exit_code == 1
    assert command(a, tmp_path / "broken", *out).exit_code == 3
    assert isinstance(command(a, *out).exception, InputError)
    assert command("--no-such-flag").exit_code == 2


def test_repeats_in_folders_end_in_a_verdict(tmp_path: Path) -> None:
    repeats(tmp_path / "old", "old", [1.0, 1.01, 0.99])
    repeats(tmp_path / "new", "new", [3.0, 2.97, 3.03])
    found = compare([tmp_path / "old", tmp_path / "new"])
    assert headline(found).word == "WORSE"
    assert "new against old: worse in interactive queue wait p99" in " ".join(conclusion(found))


def test_one_live_pair_is_called_inconclusive_first_of_all(tmp_path: Path) -> None:
    found = compare([run(tmp_path / n, n, f).path for n, f in (("a", 1.0), ("b", 9.0))])
    assert headline(found).word == "INCONCLUSIVE"


def test_an_invalid_run_is_told_first_and_has_no_number(tmp_path: Path) -> None:
    run(tmp_path / "a", "a", 1.0)
    run(tmp_path / "b", "b", 9.0, state="failed", ended_why="no disk")
    found = compare([tmp_path / "a", tmp_path / "b"])
    written = write_comparison(tmp_path / "out", found)
    text = text_of(written.html)
    assert text.index("INVALID") < text.index("no disk") < text.index("Lane")
    assert "891" not in text  # the p99 of b, which may not be believed


def test_the_caption_names_only_those_whose_slots_were_worked_out(tmp_path: Path) -> None:
    write_run(tmp_path / "a", rows(1.0, 0.5, "sim"), gauges(), target=target("told"))
    quiet = [row._replace(preemptions=0) for row in rows(1.0, 0.5, "sim")]
    write_run(tmp_path / "b", quiet, target=target("quiet"))
    (chart,) = (
        c for c in charts(compare([tmp_path / "a", tmp_path / "b"])) if c.name == "occupancy"
    )
    assert "Worked out from the waits and ends of quiet, where" in chart.caption


def test_what_was_set_stands_beside_the_numbers_everywhere(tmp_path: Path) -> None:
    for name, cost_s in (("a", 15.0), ("b", 60.0)):
        pool = {**target("preempt"), "slots": {"slots": 10, "preempt_cost_s": cost_s}}
        write_run(tmp_path / name, rows(1.0, 0.5, "sim"), gauges(), target=pool)
    found = compare([tmp_path / "a", tmp_path / "b"], labels=["old", "new"])
    written = write_comparison(tmp_path / "out", found)
    terminal = terminal_comparison(found, tmp_path / "out").plain
    for text in (text_of(written.html), written.markdown.read_text("utf-8"), terminal):
        assert re.search(r"old\W+15 s\W+new\W+60 s", text)
        assert re.search(r"same in (them )?all\W+.*slots 10", text)
        assert text.index("eviction cost") < text.index("Lane interactive")
