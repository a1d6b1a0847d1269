"""Simulated requests as the rows of a live run: same columns, `source` says `sim`."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from loadkit.model import MetricSample, RequestRecord, Send, ServerMetric, Status
from loadkit.sim.outcomes import Floats, Ints, Outcomes, State
from loadkit.sim.slots import SlotResult
from loadkit.sim.tokens import Served, TokenResult

_STATUS: dict[str, Status] = {
    "finished": "ok",
    "rejected": "rejected",
    "expired": "expired",
    "waiting": "cancelled",
    "running": "cancelled",
    "cancelled": "cancelled",
}
_HTTP: dict[str, int] = {"ok": 200, "rejected": 503, "expired": 504}
_STATUS_OF_STATE = [_STATUS.get(state.name.lower(), "cancelled") for state in State]
_HTTP_OF_STATE = np.array([_HTTP.get(status, math.nan) for status in _STATUS_OF_STATE])
_TARGET = _ENGINE = "sim"


def token_rows(result: TokenResult) -> Iterator[RequestRecord]:
    """One row per offered request; what the horizon cut off is `cancelled`."""
    return (_token_row(served) for served in result.served)


def _token_row(served: Served) -> RequestRecord:
    base = _base(served.send, served.due_s)
    seq = served.seq
    if seq is None:
        return base._replace(status="error", http_status=400, error=served.error)
    status = _STATUS[seq.state]
    started = seq.first_scheduled_s is not None
    return base._replace(
        status=status,
        sent_s=served.due_s,
        first_byte_s=seq.first_token_s,
        first_token_s=seq.first_token_s,
        first_answer_s=seq.first_token_s,
        last_token_s=seq.last_token_s,
        finished_s=seq.ended_s,
        prompt_tokens=seq.prompt_tokens if started else None,
        output_tokens=seq.generated_tokens if started else None,
        cached_tokens=seq.cached_tokens if started else None,
        token_source="usage" if started else None,
        finish_reason="length" if status == "ok" else None,
        http_status=_HTTP.get(status),
        error=_why(seq.state, seq.refusal),
        retry_after_s=seq.retry_after_s,
        queue_wait_s=seq.queue_wait_s,
        queue_wait_source="response" if started else None,
        prefill_s=seq.prefill_s,
        preemptions=seq.preemptions if started else None,
        recomputed_tokens=seq.recomputed_tokens if started else None,
    )


class Coded(NamedTuple):
    """A column of few words: the index of each row's word."""

    codes: Ints
    words: Sequence[str | None]


Column = Coded | str | int | Floats | Sequence[Any]


def slot_columns(result: SlotResult) -> dict[str, Column]:
    """The rows of a live run by columns, a row for each job that was offered, or one value for all.

    NaN and None = unknown. There are no tokens: instants between start and end stay unknown.
    """
    of, work = result.outcomes, result.workload
    rows = np.flatnonzero(of.state != State.NEW)
    came_s, state, started = of.arrival_s[rows], of.state[rows], ~np.isnan(of.start_s[rows])
    optional: dict[str, Sequence[Any] | None] = {
        "tenant": work.tenant,
        "priority": work.priority,
        "retry_after_s": of.retry_after_s,
        "prompt_tokens_planned": work.tokens and [count or None for count in work.tokens],
    }
    return {
        "request_id": _taken(work.request_id, rows),
        "lane": Coded(work.lane_code[rows], work.lane_names),
        "scheduled_s": came_s,
        "status": Coded(state, _STATUS_OF_STATE),
        "attempt": 0,
        "source": "sim",
        "planned_s": work.arrival_s[rows],
        "sent_s": came_s,
        "finished_s": of.end_s[rows],
        "http_status": _HTTP_OF_STATE[state],
        "error": _errors(of, rows),
        "queue_wait_s": of.start_s[rows] - came_s,
        "queue_wait_source": Coded(started.astype(int), (None, "response")),
        "preemptions": np.where(started, of.preemptions[rows], math.nan),
        "target": _TARGET,
        **({} if work.deadline_s is None else {"deadline_s": work.deadline_s[rows]}),
        **{name: _taken(told, rows) for name, told in optional.items() if told},
    }


def _taken(values: Sequence[Any], rows: Ints) -> Sequence[Any]:
    return values if len(rows) == len(values) else [values[row] for row in rows]


def _errors(of: Outcomes, rows: Ints) -> Column:
    words = [_why(state.name.lower(), None) for state in State]
    if of.refusal is None:
        return Coded(of.state[rows], words)
    return [of.refusal[row] or words[of.state[row]] for row in rows]


def _why(state: str, refusal: str | None) -> str | None:
    if state in ("waiting", "running"):
        return f"still {state} at the end of the simulation"
    return refusal if state in ("rejected", "expired") else None


def _base(send: Send, due_s: float) -> RequestRecord:
    return RequestRecord(
        request_id=send.request_id,
        lane=send.lane,
        scheduled_s=due_s,
        status="ok",
        source="sim",
        tenant=send.tenant,
        session=send.session,
        turn=send.turn,
        priority=send.priority,
        deadline_s=send.deadline_s,
        planned_s=send.scheduled_s,
        prompt_tokens_planned=send.prompt_tokens or None,
        output_tokens_planned=send.output_tokens or None,
        target=_TARGET,
    )


def slot_samples(result: SlotResult) -> Iterator[MetricSample]:
    """Mean number of busy slots over time.

    Only where jobs were evicted: otherwise the rows tell it exactly, and by lane.
    """
    if not result.preemptions:
        return
    slots = float(result.options.slots)
    yield MetricSample(0.0, _TARGET, _ENGINE, ServerMetric.MAX_NUM_SEQS, "{}", slots)
    before_s = before_slot_s = busy = 0.0
    for t_s, busy_slot_s in result.busy_samples:
        if t_s > before_s:  # a sample holds until the next one
            busy = (busy_slot_s - before_slot_s) / (t_s - before_s)
            yield MetricSample(
                before_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_RUNNING, "{}", busy
            )
        before_s, before_slot_s = t_s, busy_slot_s
    yield MetricSample(before_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_RUNNING, "{}", busy)


def token_samples(result: TokenResult) -> Iterator[MetricSample]:
    """The engine's state about once a second, what runs by lane, and its size."""
    limits = result.model.limits
    for name, value in (
        (ServerMetric.MAX_NUM_SEQS, float(limits.max_num_seqs)),
        (ServerMetric.MAX_NUM_BATCHED_TOKENS, limits.max_num_batched_tokens),
        (ServerMetric.KV_BLOCKS, limits.kv_blocks),
        (ServerMetric.KV_BLOCK_TOKENS, limits.block_tokens),
    ):
        yield MetricSample(0.0, _TARGET, _ENGINE, name, "{}", float(value))
    for t_s, running, waiting, kv, steps, step_tokens in result.samples:
        for lane, count in running.items():
            labels = json.dumps({"lane": lane})
            yield MetricSample(t_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_RUNNING, labels, count)
        for name, value in (
            (ServerMetric.REQUESTS_WAITING, waiting),
            (ServerMetric.KV_USAGE_RATIO, kv),
            (ServerMetric.STEP_TOKENS_SUM, step_tokens),
            (ServerMetric.STEP_TOKENS_COUNT, steps),
        ):
            yield MetricSample(t_s, _TARGET, _ENGINE, name, "{}", float(value))
