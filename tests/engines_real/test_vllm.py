"""The main job against a real vLLM on CPU, installed by `make engines`."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay_helpers import Replay, WriteTrace

pytestmark = pytest.mark.engines
ENGINES = Path(__file__).parents[2] / ".engines"
READY_WITHIN_S = 300.0
PORT = 8191
OPTIONS = """
--served-model-name tiny --host 127.0.0.1 --dtype float32 --enforce-eager --max-model-len 2048
--max-num-seqs 8 --block-size 32 --num-gpu-blocks-override 100 --enable-per-request-metrics
"""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM with 8 slots and few KV blocks, on the first CPU only so that the client keeps one."""
    if not (ENGINES / ".complete").exists():
        pytest.skip("no engine installed: make engines")
    binaries = ENGINES / "vllm" / "bin"
    options = [*OPTIONS.split(), "--port", str(PORT)]
    environ = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    log = tmp_path_factory.mktemp("vllm") / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(binaries / "vllm"), "serve", str(ENGINES / "tiny-llama"), *options],
            env=environ,
            stdout=file,
            stderr=file,
        )
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    url = f"http://127.0.0.1:{PORT}"
    try:
        _wait(process, url, log)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"vLLM did not start: {log.read_text()[-2000:]}")


def two_lanes(count: int, **more: object) -> list[dict[str, object]]:
    return [
        {
            "request_id": f"r{i}",
            "arrival_s": i * 0.2,
            "lane": "batch" if i % 3 == 0 else "interactive",
            "prompt_tokens": 40 + 7 * (i % 10),
            "output_tokens": 10 + i % 20,
            **more,
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_two_lanes_have_exact_lengths_and_the_counters_agree(
    vllm: str, replay: Replay, write_trace: WriteTrace, api: str
) -> None:
    done = replay(write_trace(two_lanes(60)), vllm, "--api", api)

    rows = done.requests
    assert set(rows["status"]) == {"ok"}, done.err
    assert (rows["output_tokens"] == rows["output_tokens_planned"]).all()
    if api == "completions":
        assert (rows["prompt_tokens"] == rows["prompt_tokens_planned"]).all()
    else:  # text on a byte-level tokenizer: calibrated, not exact
        assert (rows["prompt_tokens"] / rows["prompt_tokens_planned"]).between(0.7, 1.4).all()
    assert set(rows["queue_wait_source"]) == {"response"}
    ledger = {line["name"]: line for line in done.summary["ledger"]}
    for name in ("requests", "prompt_tokens", "generation_tokens"):
        assert ledger[name]["client"] == ledger[name]["server"], ledger
    assert done.manifest["target"]["engine"] == "vllm"
    assert done.manifest["target"]["version"] == "0.32.0"


def test_the_queue_before_eight_slots_is_seen(
    vllm: str, replay: Replay, write_trace: WriteTrace
) -> None:
    burst = [{**row, "arrival_s": 0.0, "output_tokens": 60} for row in two_lanes(24)]

    rows = replay(write_trace(burst), vllm).requests

    waited = rows["queue_wait_s"].sort_values()
    assert waited.iloc[:6].max() < waited.iloc[-6:].min()
    assert waited.iloc[-1] > 0.05


def test_few_blocks_preempt_and_the_counter_is_in_the_report(
    vllm: str, replay: Replay, write_trace: WriteTrace
) -> None:
    """8 x (40 + 600) tokens need 160 blocks of 32, and there are 100."""
    long = [
        {**row, "arrival_s": 0.0, "prompt_tokens": 40, "output_tokens": 600} for row in two_lanes(8)
    ]

    done = replay(write_trace(long), vllm)

    assert set(done.requests["status"]) == {"ok"}, done.err
    assert done.summary["preemptions"] > 0


def test_a_prompt_that_does_not_fit_is_an_error_row(
    vllm: str, replay: Replay, write_trace: WriteTrace
) -> None:
    rows = [{"request_id": "long", "arrival_s": 0.1, "prompt_tokens": 3000}, *two_lanes(3)]

    done = replay(write_trace(rows), vllm)

    row = done.requests.loc["long"]
    assert (row["status"], row["http_status"]) == ("error", 400)
    assert "maximum context length" in row["error"]
    assert "longer than the model's context" in done.err
