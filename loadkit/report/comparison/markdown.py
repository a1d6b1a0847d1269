"""The comparison that fits a pull request."""

from loadkit.analysis.comparison import Arm, Comparison
from loadkit.report.comparison import page, tables, words
from loadkit.report.markdown import bullets, grid, safe
from loadkit.report.tables import Table


def comparison_markdown(comparison: Comparison) -> str:
    head = words.headline(comparison)
    slos, whole = tables.slos(comparison), tables.whole(comparison)
    settings, shared = tables.settings(comparison), tables.shared_settings(comparison)
    blocks = [
        f"## {safe(head.word)}: {safe(page.title(comparison))}",
        safe(head.sentence),
        *(safe(paragraph) for paragraph in words.conclusion(comparison)),
        bullets([f"note: {text}" for text in comparison.cautions]),
        grid(settings) if settings else safe(f"The same in all: {shared}.") if shared else "",
        grid(slos) if slos else "",
        *(f"### {safe(table.title)}\n\n{grid(table)}" for table in _lanes(comparison)),
        grid(whole) if whole else "",
        *(_details(comparison, arm) for arm in comparison.arms[1:]),
        grid(tables.compared(comparison)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _lanes(comparison: Comparison) -> list[Table]:
    return [tables.lane(comparison, lane) for lane in comparison.lanes]


def _details(comparison: Comparison, arm: Arm) -> str:
    table = tables.differences(comparison, arm)
    folded = f"<details><summary>every difference</summary>\n\n{grid(table)}\n\n</details>"
    return f"**{safe(table.title)}**\n\n{folded}"
