"""After the last request: rows for what never came back, the closed manifest, the judgement."""

import contextlib
from dataclasses import replace

from loadkit.errors import RunError
from loadkit.model import RequestRecord
from loadkit.records import Manifest, RunDir
from loadkit.replay.recorder import Recorder
from loadkit.replay.session import Ending
from loadkit.schedule import Schedule


def complete(
    run: RunDir, manifest: Manifest, planned: Schedule, recorder: Recorder, ending: Ending
) -> Manifest:
    """Write what is missing and close the run. Never raises for a full disk: `ending` has said so."""
    recorder.take_rows(missing_rows(planned, recorder.seen, ending))
    closed = replace(
        manifest,
        state=ending.state,
        ended_s=ending.at_s,
        ended_why=ending.why,
        events=tuple(recorder.events),
    )
    with contextlib.suppress(RunError):
        recorder.close_parts()
        run.compact()
    with contextlib.suppress(RunError):
        closed.write(run.manifest_path)
    return closed


def missing_rows(planned: Schedule, seen: set[str], ending: Ending) -> list[RequestRecord]:
    """A row for every request that was due before the end and has none."""
    status, why = {
        "finished": ("dropped", "no row came back from its worker"),
        "stopped": ("cancelled", "the run was stopped before it was sent"),
        "failed": ("dropped", f"no row came back: {ending.why}"),
    }[ending.state]
    until_s = float("inf") if ending.state == "finished" else ending.at_s
    return [
        RequestRecord(
            request_id=send.request_id,
            lane=send.lane,
            scheduled_s=send.scheduled_s,
            status=status,  # type: ignore[arg-type]
            error=why,
            tenant=send.tenant,
            session=send.session,
            turn=send.turn,
            priority=send.priority,
            deadline_s=send.deadline_s,
            planned_s=send.scheduled_s,
            prompt_tokens_planned=send.prompt_tokens,
            output_tokens_planned=send.output_tokens,
        )
        for send in planned.sends
        if send.request_id not in seen and send.scheduled_s <= until_s
    ]
