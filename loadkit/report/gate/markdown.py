"""The verdict for a release page or a pull request."""

from loadkit.analysis.gate import Gate
from loadkit.report.gate import tables, words
from loadkit.report.markdown import bullets, grid, safe


def gate_markdown(found: Gate) -> str:
    head = words.headline(found)
    detail = f"{grid(tables.results(found))}\n\n{grid(tables.runs(found))}"
    blocks = [
        f"## {safe(head.word)}: {safe(head.sentence)}",
        bullets([f"note: {text}" for text in found.cautions]),
        grid(tables.short(found)),
        f"<details><summary>reasons and runs</summary>\n\n{detail}\n\n</details>",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"
