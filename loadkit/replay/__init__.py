"""The main job, wired from the rooms: one trace, one target, one run directory."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from loadkit.analysis import RunSummary, summarize
from loadkit.drive.launch import last_words, port_taken
from loadkit.errors import InputError, LoadkitError, RunError
from loadkit.records import SCHEDULE_SCHEMA, RunDir, schedule_rows, to_table, write_table
from loadkit.replay.finish import complete
from loadkit.replay.hopeless import StopRule
from loadkit.replay.options import ReplayOptions
from loadkit.replay.prepare import Prepared, prepare
from loadkit.replay.recorder import Recorder
from loadkit.replay.session import Ending, Session
from loadkit.report import write_report

__all__ = ["ReplayOptions", "StopRule", "replay"]

Say = Callable[[str], None]


def replay(options: ReplayOptions, say: Say) -> tuple[RunSummary, LoadkitError | None]:
    """Replay, measure, write, judge and report. Blocks until all is done.

    What ended the run early without being the user's wish (a full disk, a target that is gone) comes
    back beside the summary. Raises TraceError, InputError or TargetError before anything is sent, and
    RunError when nothing can be written. What a server does to requests is a result, not an error.
    """
    run, ending = asyncio.run(_run(options, say))
    summary = summarize(run)
    try:
        verdict = {"valid": summary.validity.valid, "reasons": list(summary.validity.reasons)}
        replace(run.manifest(), validity=verdict).write(run.manifest_path)
        write_report(run, summary)
    except RunError:
        if ending.error is None:  # a full disk is told once, where it was first met
            raise
    return summary, ending.error


async def _run(options: ReplayOptions, say: Say) -> tuple[RunDir, Ending]:
    RunDir.require_new(options.output)  # says so before the target is bothered
    if options.web_port and (why := port_taken(options.web_port)):
        raise InputError(
            f"--web {options.web_port}: {why}",
            hint="choose another port; what listens on this one?",
        )
    prepared = await prepare(options)
    say(_opening(options, prepared))
    run = RunDir.create(options.output)
    prepared.manifest.write(run.manifest_path)
    rows = schedule_rows(prepared.schedule.sends)
    write_table(to_table(rows, SCHEDULE_SCHEMA), run.schedule_path)
    recorder = Recorder(run)
    for note in prepared.notes:
        say(note)
        recorder.note(note)
    session = Session(options, prepared, run, recorder)
    ending = await session.run()
    complete(run, session.manifest, prepared.schedule, recorder, ending)
    if ending.state != "failed" and not last_words(run.work_dir):
        run.remove_work_dir()
    return run, ending


def _opening(options: ReplayOptions, prepared: Prepared) -> str:
    totals = prepared.manifest.schedule
    return (
        f"{totals['requests']:,} requests over {totals['duration_s']:.0f} s"
        f" ({totals['mean_rate_rps']:.2f}/s, peak {totals['peak_rate_rps']}/s)"
        f" to {prepared.plan.target.url}: {prepared.plan.engine} {prepared.info.version or ''},"
        f" model {prepared.plan.model}; into {options.output}"
    )
