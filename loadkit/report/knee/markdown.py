"""The search that fits a release page."""

from loadkit.analysis.knee.result import KneeResult
from loadkit.report.knee import page, tables, words
from loadkit.report.markdown import bullets, grid, safe


def knee_markdown(result: KneeResult) -> str:
    head = words.headline(result)
    sharing = tables.sharing(result)
    folded = f"<details><summary>every step</summary>\n\n{grid(tables.steps(result))}\n\n</details>"
    blocks = [
        f"## {safe(head.word)}: {safe(page.title(result))}",
        safe(head.sentence),
        *(safe(paragraph) for paragraph in words.answer(result)),
        bullets([f"note: {text}" for text in result.cautions]),
        grid(tables.found(result)),
        grid(sharing) if sharing else "",
        folded,
        bullets([f"{name}: {value}" for name, value in page.facts(result)]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"
