"""The core on virtual time: one trace through one policy or many, in seconds instead of hours.

`slots`: each job holds a slot for its service time; exact, nothing about tokens. `tokens`: the engine
model, step by step. Reads no file and no clock, draws nothing: the same input gives the same output.
"""

from loadkit.sim.outcomes import Outcomes, State
from loadkit.sim.rows import Coded, Column, slot_columns, slot_samples, token_rows, token_samples
from loadkit.sim.slots import SlotOptions, SlotResult, simulate_slots
from loadkit.sim.summary import summarize_jobs, summarize_served
from loadkit.sim.tokens import EngineModel, Served, TokenResult, simulate_tokens
from loadkit.sim.workload import Workload

__all__ = [
    "Coded",
    "Column",
    "EngineModel",
    "Outcomes",
    "Served",
    "SlotOptions",
    "SlotResult",
    "State",
    "TokenResult",
    "Workload",
    "simulate_slots",
    "simulate_tokens",
    "slot_columns",
    "slot_samples",
    "summarize_jobs",
    "summarize_served",
    "token_rows",
    "token_samples",
]
