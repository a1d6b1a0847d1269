"""The client's facts against the emulator's ledger: what was really sent, and when."""

import os
import signal
import time

import pandas as pd
import pytest

from replay_helpers import Replay, StartEmulator, StartReplay, WriteTrace

LANES = ("interactive", "interactive", "batch")


def steady(count: int, every_s: float, **more: object) -> list[dict[str, object]]:
    return [
        {"request_id": f"r{i}", "arrival_s": i * every_s, "lane": LANES[i % 3], **more}
        for i in range(count)
    ]


def test_instants_tokens_and_waits_agree_with_what_the_server_did(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator("--slots", "4", "--profile", "steady")
    trace = write_trace(steady(80, 0.05, prompt_tokens=120, output_tokens=12))

    done = replay(trace, engine.url, "--slo", "interactive:ttft:p99:60s")
    rows, ledger = done.requests, engine.ledger()
    start_s = done.manifest["anchor"]["monotonic_s"]

    assert (done.code, len(rows), set(rows["status"])) == (0, 80, {"ok"}), done.err
    truth = pd.DataFrame(ledger[name] for name in rows.index).set_axis(rows.index)
    assert (rows["prompt_tokens"] == 120).all()
    assert (rows["output_tokens"] == truth["token_s"].map(len)).all()
    assert (rows["lane"] == truth["lane"]).all()
    first_s = truth["token_s"].map(lambda instants: instants[0]) - start_s
    last_s = truth["token_s"].map(lambda instants: instants[-1]) - start_s
    # The ledger stamps after a write, the client when the kernel had the bytes: never much before.
    for seen_s, written_s in ((rows["first_token_s"], first_s), (rows["last_token_s"], last_s)):
        late_s = seen_s - written_s
        assert late_s.min() > -0.02
        assert late_s.median() < 0.02
    assert (rows["sent_s"] <= truth["arrival_s"] - start_s + 1e-3).all()
    waited_s = truth["first_scheduled_s"] - truth["queued_s"]
    assert (rows["queue_wait_s"] - waited_s).abs().max() < 1e-3  # the API tells milliseconds
    assert set(rows["queue_wait_source"]) == {"response"}
    assert rows["queue_wait_s"].max() > 0.05  # four slots were not enough: there was a queue to see


def test_the_ledger_of_the_report_balances(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator()

    done = replay(write_trace(steady(40, 0.05)), engine.url)

    told = {line["name"]: (line["client"], line["server"]) for line in done.summary["ledger"]}
    assert told["prompt_tokens"] == (40 * 50, 40 * 50)
    assert told["generation_tokens"] == (40 * 10, 40 * 10)
    assert done.summary["valid"], done.summary["reasons"]


def test_a_stall_of_the_server_is_seen_by_every_request_that_was_due_in_it(
    emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace
) -> None:
    """No coordinated omission: requests go on being sent, and wait from when they were due."""
    engine = emulator("--profile", "tiny")
    replaying = start_replay(write_trace(steady(160, 0.05)), engine.url)

    replaying.wait_for_rows(20)
    os.kill(engine.pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(engine.pid, signal.SIGCONT)
    done = replaying.end()

    rows = done.requests
    ttft_s = rows["first_token_s"] - rows["scheduled_s"]
    assert 1.5 < ttft_s.quantile(0.99) < 4.0
    # 2 s at 20 requests a second: 40 were due in the stall and waited evenly from 2 s down to 0 s
    assert 25 <= (ttft_s > 0.5).sum() <= 45
    assert (rows["sent_s"] - rows["scheduled_s"]).quantile(0.99) < 0.5
    assert done.summary["lanes"]["interactive"]["ttft_s"]["p99"] > 1.5


def test_both_lanes_reach_the_server_with_tenant_priority_and_deadline(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator()
    batch = {"request_id": "b", "arrival_s": 0.5, "lane": "batch", "tenant": "team ä"}
    trace = write_trace(
        [
            {**batch, "priority": 10, "deadline_s": 60.5},
            {"request_id": "i", "arrival_s": 0.6, "lane": "interactive", "priority": 0},
        ]
    )

    replay(trace, engine.url)

    told = engine.ledger()
    assert (told["b"]["lane"], told["b"]["priority"]) == ("batch", 10)
    assert told["b"]["deadline_s"] - told["b"]["arrival_s"] == pytest.approx(60.0, abs=0.5)
    assert (told["i"]["lane"], told["i"]["priority"]) == ("interactive", 0)


def test_headers_of_ones_own_carry_what_a_request_has(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    """The emulator takes its lane from X-Loadkit-Lane, whoever wrote that header."""
    engine = emulator()
    rows = [{"request_id": "a", "arrival_s": 0.1, "lane": "x", "tenant": "t1"}]
    rows += [{"request_id": "b", "arrival_s": 0.2, "lane": "x"}]

    options = ["--no-lane-headers", "--header", "X-Loadkit-Lane: {lane}-{tenant}"]
    done = replay(write_trace(rows), engine.url, *options)

    assert set(done.requests["status"]) == {"ok"}, done.err
    told = engine.ledger()
    assert told["a"]["lane"] == "x-t1"
    assert told["b"]["lane"] != "x-"  # nothing to say about the tenant: no header


def test_the_next_turn_waits_for_the_reply_and_the_think_time(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    """Turn 1 takes about 1 s; turn 2 is recorded at 0.2 s and thinks for 0.5 s; turn 3 is not held up."""
    engine = emulator("--profile", "steady")
    turn = {"session": "s", "prompt_tokens": 64}
    trace = write_trace(
        [
            {**turn, "request_id": "t1", "arrival_s": 0.0, "turn": 0, "output_tokens": 100},
            {**turn, "request_id": "t2", "arrival_s": 0.2, "turn": 1, "think_s": 0.5},
            {**turn, "request_id": "t3", "arrival_s": 9.0, "turn": 2, "think_s": 0.5},
        ]
    )

    rows = replay(trace, engine.url).requests

    assert rows["scheduled_s"]["t2"] == pytest.approx(rows["finished_s"]["t1"] + 0.5, abs=1e-6)
    assert rows["planned_s"]["t2"] == 0.2
    assert rows["scheduled_s"]["t3"] == 9.0
    assert (rows["sent_s"] - rows["scheduled_s"]).max() < 0.5


def test_several_workers_send_every_request_once_and_keep_sessions_together(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator()
    rows_in = [{**row, "session": f"s{i // 2}"} for i, row in enumerate(steady(60, 0.05))]

    done = replay(write_trace(rows_in), engine.url, "--workers", "2")

    rows = done.requests
    assert (done.code, len(rows), set(rows["status"])) == (0, 60, {"ok"}), done.err
    assert set(rows["worker"]) == {0, 1}
    assert (rows.groupby("session")["worker"].agg(lambda workers: len(set(workers))) == 1).all()
    assert len(engine.ledger()) >= 60
    assert done.manifest["workers"] == 2


def test_requests_beyond_the_cap_are_dropped_rows_and_the_run_says_so(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator("--profile", "steady")
    trace = write_trace(steady(30, 0.02, output_tokens=60))

    done = replay(trace, engine.url, "--max-in-flight", "3")

    statuses = done.requests["status"].value_counts()
    assert statuses["dropped"] > 10
    assert statuses.sum() == 30
    assert done.code == 3
    assert not done.summary["valid"]
    assert any("cap" in reason for reason in done.summary["reasons"])


def test_refusals_are_rows_and_a_retry_is_a_row_of_its_own(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    engine = emulator("--slots", "1", "--max-queue", "1", "--profile", "steady")
    trace = write_trace(steady(12, 0.01, output_tokens=30))

    done = replay(trace, engine.url, "--retries", "1")

    rows = done.requests
    refused = rows[rows["status"] == "rejected"]
    assert len(refused) > 0
    assert set(refused["http_status"]) == {503}
    assert refused["retry_after_s"].notna().all()
    assert rows["attempt"].max() == 1
    assert (rows[rows["attempt"] == 1]["scheduled_s"] < 0.2).all()  # from the first schedule on
    assert rows.index.nunique() == 12
