"""Simulated requests as the rows of a live run: same columns, `source` says `sim`."""

import math
from collections.abc import Iterator

from loadkit.model import MetricSample, RequestRecord, Send, ServerMetric, Status
from loadkit.sim.outcomes import State
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


def slot_rows(result: SlotResult, sends: list[Send]) -> Iterator[RequestRecord]:
    """At slot level there are no tokens: instants between start and end stay unknown."""
    of = result.outcomes
    nothing: list[None] = [None] * len(sends)
    columns = zip(
        sends,
        of.state.tolist(),
        of.arrival_s.tolist(),
        of.start_s.tolist(),
        of.end_s.tolist(),
        of.preemptions.tolist(),
        of.refusal or nothing,
        of.retry_after_s or nothing,
        strict=True,
    )
    for send, state, *rest in columns:
        if state != State.NEW:
            yield _slot_row(_base(send, rest[0]), State(state).name.lower(), *rest)


def _slot_row(  # noqa: PLR0913, PLR0917 - one row, column by column
    base: RequestRecord,
    state: str,
    arrival_s: float,
    start_s: float,
    end_s: float,
    preemptions: int,
    refusal: str | None,
    retry_after_s: float | None,
) -> RequestRecord:
    status = _STATUS[state]
    started = not math.isnan(start_s)
    return base._replace(
        status=status,
        sent_s=arrival_s,
        finished_s=None if math.isnan(end_s) else end_s,
        http_status=_HTTP.get(status),
        error=_why(state, refusal),
        retry_after_s=retry_after_s,
        queue_wait_s=start_s - arrival_s if started else None,
        queue_wait_source="response" if started else None,
        preemptions=preemptions if started else None,
    )


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
    before_s = before_slot_s = 0.0
    for t_s, busy_slot_s in result.busy_samples:
        if t_s > before_s:
            busy = (busy_slot_s - before_slot_s) / (t_s - before_s)
            yield MetricSample(t_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_RUNNING, "{}", busy)
        before_s, before_slot_s = t_s, busy_slot_s


def token_samples(result: TokenResult) -> Iterator[MetricSample]:
    """The engine's state about once a second, and its size, under the canonical names."""
    limits = result.model.limits
    for name, value in (
        (ServerMetric.MAX_NUM_SEQS, limits.max_num_seqs),
        (ServerMetric.KV_BLOCKS, limits.kv_blocks),
        (ServerMetric.KV_BLOCK_TOKENS, limits.block_tokens),
    ):
        yield MetricSample(0.0, _TARGET, _ENGINE, name, "{}", float(value))
    for t_s, running, waiting, kv in result.samples:
        yield MetricSample(t_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_RUNNING, "{}", running)
        yield MetricSample(t_s, _TARGET, _ENGINE, ServerMetric.REQUESTS_WAITING, "{}", waiting)
        yield MetricSample(t_s, _TARGET, _ENGINE, ServerMetric.KV_USAGE_RATIO, "{}", kv)
