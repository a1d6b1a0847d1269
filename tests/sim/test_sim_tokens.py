"""Token level: the emulator's scheduler on virtual time, its rows, and a report of them."""

import json
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import pandas as pd
import pytest
from typer.testing import CliRunner

from loadkit.cli import app
from loadkit.core import PROFILES, EngineLimits, Step, StepCost, parse_policy
from loadkit.model import Send
from loadkit.sim import EngineModel, simulate_tokens

ONE = EngineModel(
    EngineLimits(max_num_seqs=1, max_num_batched_tokens=8, chunk_tokens=8), StepCost(1.0, 0.0, 0.0)
)
SMALL = EngineModel(
    EngineLimits(
        max_num_seqs=4, max_num_batched_tokens=64, kv_blocks=16, block_tokens=4, max_model_len=64,
        chunk_tokens=64, prefix_cache=False,
    ),
    StepCost(0.01, 1e-4, 1e-3, swap_s_per_token=1e-3),
)  # fmt: skip


def test_one_server_with_constant_cost_waits_exactly_as_lindley_says() -> None:
    for load in (0.5, 0.9, 1.2):
        rng = Random(3)
        at_s, expected, sends = 0.0, 0.0, [Send("r0", 0.0, "interactive", 4, 1)]
        waits = [0.0]
        for number in range(1, 2_000):
            gap_s = rng.expovariate(load)
            at_s, expected = at_s + gap_s, max(0.0, expected + 1.0 - gap_s)
            waits.append(expected)
            sends.append(Send(f"r{number}", at_s, "interactive", 4, 1))
        result = simulate_tokens(sends, parse_policy("fifo"), ONE)
        found = [of.seq.queue_wait_s for of in result.served if of.seq]
        assert found == pytest.approx(waits, abs=1e-8)


def test_a_follow_up_goes_out_when_its_parent_has_ended_and_the_think_time_is_over() -> None:
    sends = [
        Send("a", 0.0, "interactive", 4, 5, session="s"),
        Send("b", 1.0, "interactive", 4, 1, session="s", parent_id="a", think_s=2.0),
        Send("c", 50.0, "interactive", 4, 1, session="s", parent_id="b", think_s=2.0),
    ]
    result = simulate_tokens(sends, parse_policy("fifo"), ONE)
    assert [(of.send.request_id, of.due_s) for of in result.served] == [
        ("a", 0.0), ("b", 7.0), ("c", 50.0)
    ]  # fmt: skip


def test_preemption_for_an_urgent_request_costs_the_batch_one_its_tokens_or_a_swap() -> None:
    roomy = replace(SMALL, limits=replace(SMALL.limits, kv_blocks=64))
    sends = [Send(f"batch{n}", 0.0, "batch", 12, 30) for n in range(4)]
    sends.append(Send("chat", 0.2, "interactive", 4, 2))
    none, recompute, swap = (
        simulate_tokens(sends, parse_policy(text), roomy)
        for text in ("priority", "preempt", "preempt,recovery=swap")
    )
    waits = [next(of.seq.queue_wait_s or 0.0 for of in r.served if of.seq and of.seq.lane == "interactive")
             for r in (none, recompute, swap)]  # fmt: skip
    assert waits[0] > 0.1
    assert max(waits[1:]) < 0.02
    recomputed = [
        sum(of.seq.recomputed_tokens for of in r.served if of.seq) for r in (recompute, swap)
    ]
    assert recomputed[0] > 0
    assert recomputed[1] == 0


def test_headroom_may_be_asked_for_in_blocks_and_in_tokens() -> None:
    sends = [Send(f"batch{n}", 0.0, "batch", 12, 3) for n in range(4)]
    for text, together in (("fifo", 4), ("reserve:8blocks", 2), ("reserve:32tokens", 2)):
        result = simulate_tokens(sends, parse_policy(text), SMALL)
        starts = [of.seq.first_scheduled_s for of in result.served if of.seq]
        assert starts.count(0.0) == together


def test_static_batching_wastes_what_continuous_batching_uses() -> None:
    rng = Random(1)
    sends = [Send(f"r{n}", n * 0.01, "interactive", 4, rng.randint(1, 40)) for n in range(60)]
    ends = [simulate_tokens(sends, parse_policy(text), SMALL).end_s for text in ("fifo", "static")]
    assert ends[1] > 1.2 * ends[0]


class Timed(StepCost):
    """Keeps the time of every step that brought all eight streams a token."""

    def __call__(self, step: Step) -> float:
        seconds = super().__call__(step)
        if len(step.decodes) == 8:
            STEPS_S.append(seconds)
        return seconds


STEPS_S: list[float] = []


@pytest.mark.parametrize(
    ("chunk_tokens", "longest_s", "steps"),
    # One step computes all 32,768 tokens at 15.3 us; or 64 steps compute 512 tokens each. In every
    # step eight streams add 40 us each. A step without a prompt takes 6 ms, as long as the weights.
    [(None, 32_768 * 15.3e-6 + 8 * 40e-6, 1), (512, 512 * 15.3e-6 + 8 * 40e-6, 64)],
    ids=["501.7 ms unchunked", "8.15 ms in chunks of 512"],
)
def test_a_long_prompt_stops_eight_streams_for_its_whole_prefill_unless_it_is_chunked(
    chunk_tokens: int | None, longest_s: float, steps: int
) -> None:
    STEPS_S.clear()
    limits = EngineLimits(
        kv_blocks=28_000, max_model_len=33_000, max_num_batched_tokens=33_000,
        chunk_tokens=chunk_tokens,
    )  # fmt: skip
    speed = PROFILES["h100-8b"].cost
    model = EngineModel(limits, Timed(*(getattr(speed, f.name) for f in fields(speed))))
    sends = [Send(f"stream-{n}", 0.0, "interactive", 256, 1000) for n in range(8)]
    sends.append(Send("long", 3.0, "interactive", 32_768, 1))
    (*_, long) = simulate_tokens(sends, parse_policy("fifo"), model).served
    held = [seconds for seconds in STEPS_S if seconds > 6.33e-3]
    assert held == pytest.approx([longest_s] * steps)
    assert STEPS_S[0] == pytest.approx(6e-3 + 8 * 40e-6)
    assert long.seq
    assert long.seq.prefill_s == pytest.approx(longest_s * steps)


def test_favouring_prefill_starts_sooner_and_stalls_those_that_stream() -> None:
    model = EngineModel(EngineLimits(max_num_seqs=8, max_num_batched_tokens=256, chunk_tokens=64),
                        StepCost(0.01, 1e-3, 0.0))  # fmt: skip
    sends = [Send("stream", 0.0, "interactive", 16, 40)]
    sends += [Send(f"long{n}", 0.1, "interactive", 1000, 1) for n in range(2)]
    ends, firsts = [], []
    for text in ("favour=decode", "favour=prefill"):
        served = {
            of.send.request_id: of.seq
            for of in simulate_tokens(sends, parse_policy(text), model).served
        }
        stream, long = served["stream"], served["long0"]
        assert stream
        assert long
        ends.append(stream.ended_s or 0.0)
        firsts.append(long.first_token_s or 0.0)
    assert ends[1] > ends[0]
    assert firsts[1] <= firsts[0]


def test_a_simulated_run_is_a_run_directory_that_report_understands(tmp_path: Path) -> None:
    runner, out = CliRunner(), tmp_path / "sim"
    trace = str(Path("traces/diurnal-demo.parquet").resolve())
    policies = ["--policy", "fifo", "--policy", "reserve:2+preempt"]
    result = runner.invoke(
        app, ["sim", trace, "--slots", "12", *policies, "-o", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)["policies"]
    run = Path(told[1]["run"])
    rows = pd.read_parquet(run / "requests")
    assert set(rows["source"]) == {"sim"}
    assert set(rows["status"]) == {"ok"}
    assert rows["preemptions"].sum() == told[1]["preemptions"] > 0
    lane = rows[rows["lane"] == "interactive"]
    assert len(lane) == told[1]["lanes"]["interactive"]["offered"]
    assert lane["queue_wait_s"].max() == pytest.approx(
        told[1]["lanes"]["interactive"]["wait_s"]["max"]
    )
    again = runner.invoke(app, ["sim", trace, *policies, "-o", str(out)])
    assert "already exists" in str(again.exception)
    report = runner.invoke(app, ["report", str(run), "--json"])
    assert report.exit_code == 0, report.output
    summary = json.loads(report.stdout)
    assert summary["valid"]
    assert summary["lanes"]["batch"]["completed"] == told[1]["lanes"]["batch"]["completed"]


def test_the_same_input_gives_the_same_rows(tmp_path: Path) -> None:
    frames = []
    for name in ("a", "b"):
        args = [
            "sim",
            "traces/diurnal-demo.parquet",
            "--policy",
            "fair",
            "-o",
            str(tmp_path / name),
        ]
        assert CliRunner().invoke(app, args).exit_code == 0
        frames.append(pd.read_parquet(tmp_path / name / "requests"))
    pd.testing.assert_frame_equal(frames[0], frames[1])


def test_a_slot_level_run_can_be_written_too(tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "run"
    path.write_text(
        "arrival_s,lane,service_s\n0,batch,5\n1,interactive,2\n1,interactive,2\n2,interactive,2\n"
    )
    args = ["sim", str(path), "--slots", "1", "--policy", "fifo,queue=2", "-o", str(out)]
    assert CliRunner().invoke(app, args).exit_code == 0
    rows = pd.read_parquet(out / "requests").set_index("request_id")
    assert list(rows["status"]) == ["ok", "ok", "ok", "rejected"]
    assert list(rows["queue_wait_s"][:3]) == [0.0, 4.0, 6.0]
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
