"""BurstGPT traces, read by column name: _1 and _2 have six columns, _3 has two more in the middle.

`Timestamp` is whole seconds from a local midnight that the file does not date; a failed request has
0 response tokens and stays a row. `Elapsed time` is the recorded system's end-to-end latency.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from loadkit.model import INTERACTIVE
from loadkit.trace import csvfile
from loadkit.trace.cells import Place, real_numbers, token_counts
from loadkit.trace.raw import Raw, ReadOptions, as_seconds, joined
from loadkit.trace.source import Source

COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens", "Log Type")
OPTIONAL = ("Session ID", "Elapsed time")

_LANE_BY_LOG_TYPE = {"Conversation log": INTERACTIVE, "API log": INTERACTIVE}
_FACTS = {"licence": "CC-BY-4.0", "attribution": "BurstGPT (Wang et al. 2024), HPMLL/BurstGPT"}


def sniff(source: Source) -> bool:
    return {"Timestamp", "Request tokens", "Response tokens"} <= set(csvfile.header(source))


def read(source: Source, options: ReadOptions) -> Raw:
    """Raises TraceError."""
    present = [name for name in OPTIONAL if name in csvfile.header(source)]
    chunks = [
        _chunk(batch, place, options)
        for batch, place in csvfile.blocks(source, [*COLUMNS, *present])
    ]
    columns = joined(chunks)
    stamp_s = as_seconds(columns.pop("stamp_s"))
    return Raw(
        source="burstgpt",
        columns=columns,
        arrival_s=stamp_s,
        rebase=True,
        first_line=2,
        # Hour of day survives the rebase: seconds from the midnight before the recording began.
        facts=_FACTS | {"t0_local_midnight_s": float(stamp_s.min())},
    )


def _chunk(batch: pa.RecordBatch, place: Place, options: ReadOptions) -> dict[str, Any]:
    chunk = {
        "stamp_s": real_numbers(batch["Timestamp"], "Timestamp", place),
        "prompt_tokens": token_counts(batch["Request tokens"], "Request tokens", place),
        "output_tokens": token_counts(batch["Response tokens"], "Response tokens", place),
        "model": batch["Model"],
        "lane": _lanes(batch["Log Type"], place, options),
    }
    names = batch.schema.names
    if "Session ID" in names:
        chunk["session"] = _or_null(batch["Session ID"])
    if "Elapsed time" in names:
        chunk["rec_e2e_s"] = real_numbers(batch["Elapsed time"], "Elapsed time", place, null=True)
    return chunk


def _lanes(cells: Any, place: Place, options: ReadOptions) -> Any:
    lanes = _LANE_BY_LOG_TYPE | ({"API log": options.api_lane} if options.api_lane else {})
    encoded = cells.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    unknown = next((word for word in words if word not in lanes), None)
    if unknown is not None:
        raise place.bad_cell(
            pc.index(cells, unknown).as_py(), "Log Type", unknown, " or ".join(map(repr, lanes))
        )
    return pa.array([lanes[word] for word in words]).take(encoded.indices)


def _or_null(cells: Any) -> Any:
    return pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
