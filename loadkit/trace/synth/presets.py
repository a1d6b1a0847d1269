"""Presets of the generator: tables, with where each comes from. A new preset is one more entry.

Sources: BurstGPT_1 (hour of day, CC-BY-4.0), Azure LLM inference 2023 conv (token quantiles and
burstiness, CC-BY-4.0) and 2024 conv (weekend factor), RAGPulse (turns, gaps, system prompts, MIT),
ServeGen offline (batch token counts, Apache-2.0). Nobody publishes when batch jobs are submitted:
hours, sizes and mix of jobs are assumptions, and batch rows say so (`lane_from` = `assumed`).
"""

from dataclasses import dataclass
from typing import NamedTuple


class Ou(NamedTuple):
    """A slow random rate: exp of an Ornstein-Uhlenbeck process, mean 1."""

    sigma: float
    """Standard deviation of the log rate."""
    tau_s: float


class LogNormal(NamedTuple):
    mu: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Chat:
    hour_weights: tuple[float, ...]
    """24 multipliers of the mean rate at the hours' centres, mean 1."""
    weekend_factor: float
    arrival_cv: float
    """CV of session starts in operational time; 1 = Poisson."""
    modulators: tuple[Ou, ...]
    tenants: int
    tenant_zipf: float
    prompt_tokens: tuple[int, ...]
    """101 quantiles of the first turn's prompt."""
    output_tokens: tuple[int, ...]
    added_tokens: LogNormal
    """What a user adds to the context per further turn."""
    context_tokens_max: int
    """A session that would outgrow this ends."""
    continue_shares: tuple[float, ...]
    """P(another turn) after turn 1, 2, …; the last one holds from there on."""
    turns_max: int
    gap_s: LogNormal
    """From one turn's arrival to the next one's."""
    system_prompt_shares: tuple[float, ...]
    """Each tenant has one system prompt per entry."""
    system_prompt_tokens: tuple[int, int]


class JobKind(NamedTuple):
    share: float
    """Of jobs."""
    template_tokens: int
    """The same leading tokens in every row of a job."""
    own_tokens: LogNormal
    prompt_tokens_max: int
    output_tokens: LogNormal
    output_tokens_max: int


@dataclass(frozen=True, slots=True)
class Batch:
    submit_hours: tuple[int, int]
    """Local hours in which jobs are submitted; the end may lie past midnight."""
    on_the_hour_share: float
    """Jobs that a scheduler starts at minute 0."""
    rows_per_job: LogNormal
    rows_per_job_max: int
    window_h: float
    """Deadline = submit + this much of a day."""
    kinds: tuple[JobKind, ...]
    pipelines: int
    """Batch tenants."""


@dataclass(frozen=True, slots=True)
class Preset:
    summary: str
    chat: Chat
    batch: Batch
    batch_share: float
    """Of all rows, unless the user says otherwise."""
    start_hour: float


_AZURE23_CONV_PROMPT = (
    *(2, 29, 91, 161, 181, 181, 191, 197, 201, 203, 207, 212, 222, 242, 317, 372, 375, 378, 381),
    *(384, 387, 390, 392, 394, 395, 396, 398, 399, 400, 402, 403, 405, 406, 408, 411, 414, 419),
    *(424, 433, 456, 703, 863, 903, 946, 972, 984, 994, 1002, 1009, 1014, 1020, 1025, 1031, 1036),
    *(1041, 1045, 1050, 1055, 1060, 1065, 1071, 1076, 1081, 1086, 1092, 1097, 1102, 1109, 1116),
    *(1122, 1130, 1139, 1147, 1160, 1171, 1189, 1215, 1249, 1311, 1314, 1315, 1321, 1369, 1508),
    *(1690, 1877, 2032, 2221, 2402, 2584, 2735, 3292, 4073, 4076, 4079, 4083, 4086, 4090, 4098),
    *(4142, 14050),
)
_AZURE23_CONV_OUTPUT = (
    *(7, 16, 24, 32, 38, 41, 44, 47, 49, 52, 54, 57, 59, 62, 64, 67, 69, 71, 73, 75, 77, 79, 81),
    *(82, 84, 85, 86, 87, 89, 90, 91, 92, 93, 94, 95, 96, 97, 99, 100, 101, 103, 105, 107, 108),
    *(110, 113, 116, 118, 122, 125, 129, 133, 137, 141, 145, 151, 156, 161, 163, 169, 177, 182),
    *(190, 202, 216, 217, 237, 371, 375, 378, 384, 387, 390, 393, 394, 395, 396, 396, 397, 398),
    *(400, 402, 404, 407, 410, 411, 414, 415, 417, 420, 424, 428, 429, 433, 442, 451, 468, 509),
    *(540, 601, 1000),
)
_BURSTGPT1_HOURS = (
    *(0.999, 0.973, 0.627, 0.573, 0.413, 0.385, 0.217, 0.169, 0.175, 0.343, 0.788, 1.265),
    *(1.908, 1.589, 1.849, 1.344, 1.421, 1.349, 1.231, 1.647, 1.379, 1.172, 1.136, 1.046),
)

_CHAT = Chat(
    hour_weights=_BURSTGPT1_HOURS,
    weekend_factor=0.57,
    arrival_cv=1.0,
    modulators=(Ou(0.12, 8.0), Ou(0.18, 400.0)),
    tenants=50,
    tenant_zipf=1.1,
    prompt_tokens=_AZURE23_CONV_PROMPT,
    output_tokens=_AZURE23_CONV_OUTPUT,
    added_tokens=LogNormal(5.2, 0.8),  # mean 250
    context_tokens_max=8192,
    continue_shares=(0.41, 0.41, 0.45, 0.52, 0.60, 0.70),
    turns_max=25,
    gap_s=LogNormal(3.8, 1.07),
    system_prompt_shares=(0.77, 0.20, 0.03),
    system_prompt_tokens=(160, 512),
)

_BATCH = Batch(
    submit_hours=(18, 26),
    on_the_hour_share=0.25,
    rows_per_job=LogNormal(6.215, 1.5),  # median 500
    rows_per_job_max=50_000,
    window_h=24.0,
    kinds=(
        # Generation, scoring, translation. Generation is cut where a batch client would cut it
        # (assumed), far below the 6,144 of the source.
        JobKind(0.3, 0, LogNormal(4.2, 0.6), 4096, LogNormal(7.05, 1.34), 1024),
        JobKind(0.4, 160, LogNormal(6.30, 0.01), 715, LogNormal(1.61, 0.0), 5),
        JobKind(0.3, 160, LogNormal(5.3, 0.45), 900, LogNormal(5.3, 0.45), 740),
    ),
    pipelines=3,
)

PRESETS: dict[str, Preset] = {
    "diurnal": Preset(
        summary="chat of one time zone (quiet 06-09 h, busy 12-20 h) and evening batch jobs",
        chat=_CHAT,
        batch=_BATCH,
        batch_share=0.3,
        start_hour=12.0,  # noon to noon: the evening's jobs come before the night that has room
    ),
}
