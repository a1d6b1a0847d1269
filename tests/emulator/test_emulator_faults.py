"""Each scripted fault, as a client meets it and as the plan computes it."""

import socket
import time
from itertools import pairwise
from pathlib import Path

import pytest
from emulator_client import ask, get, open_stream, post, samples

from conftest import StartEmulator
from loadkit.emulator.faults import Fault, FaultPlan, parse_fault, read_faults
from loadkit.errors import InputError

TINY = ("--profile", "tiny")


def test_a_stall_delays_the_step_it_falls_into_and_nothing_starts_in_it() -> None:
    plan = FaultPlan((Fault("stall", at_s=5, for_s=2), Fault("stall", at_s=7, for_s=1)), 100.0)
    assert plan.step_end_s(104.0, 0.5) == 104.5
    assert plan.step_end_s(104.8, 0.5) == 107.3 + 1.0  # runs into the second as well
    assert [plan.resume_s(t) for t in (104.9, 105.0, 106.9, 107.5, 108.0)] == [
        104.9,
        108.0,
        108.0,
        108.0,
        108.0,
    ]


def test_slow_steps_take_their_factor_while_it_lasts() -> None:
    plan = FaultPlan((Fault("slow", at_s=1, for_s=1, factor=3.0),), 0.0)
    assert [plan.step_end_s(t, 0.1) for t in (0.5, 1.5, 2.5)] == pytest.approx([0.6, 1.8, 2.6])


def test_faults_are_read_from_words_and_from_json(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('[{"kind": "stall", "at": "5s", "for": "2s"}, {"kind": "error", "every": 10}]')
    assert read_faults(path) == (Fault("stall", 5, 2), Fault("error", every=10))
    assert parse_fault("slow:at=1m,factor=3x") == Fault("slow", 60, factor=3)
    assert parse_fault("refuse:status=429,for=500ms") == Fault("refuse", 0, 0.5, http_status=429)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flood:at=1s", "unknown fault 'flood'"),
        ("stall:at=1s", "needs an end"),
        ("stall:at=1s,for=2s,every=3", "stall has no every"),
        ("error:every=0", "at least 1"),
        ("error:after=x", "after=x"),
        ("refuse:status=500", "429 or 503"),
        ("stall:at=1,for=2s", "not a duration"),
    ],
)
def test_a_fault_that_cannot_be_is_an_error_that_names_it(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_fault(text)


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_a_bad_fault_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"faults\.json"):
        read_faults(path)


def test_a_stall_is_a_hole_in_the_stream(emulator: StartEmulator) -> None:
    server = emulator("--profile", "steady", "--fault", "stall:at=1500ms,for=1s")
    post(server.port, ask(100), X_Request_Id="r")
    token_s = server.ledger()["r"]["token_s"]
    gaps_s = sorted(b - a for a, b in pairwise(token_s))
    assert gaps_s[-1] == pytest.approx(1.02, abs=0.05)
    assert gaps_s[-2] < 0.2


def test_streams_end_in_an_error_cut_short_or_reset_as_scripted(emulator: StartEmulator) -> None:
    faults = ("truncate:every=3,after=4", "error:every=4,after=3", "reset:every=5,after=2")
    server = emulator(*TINY, *(word for fault in faults for word in ("--fault", fault)))
    whole, _, truncated, failed = (
        post(server.port, ask(9), X_Request_Id=f"r{n}") for n in range(4)
    )
    with pytest.raises(ConnectionResetError):
        post(server.port, ask(9), X_Request_Id="r4")
    assert (len(whole.tokens), whole.events[-1]) == (9, "[DONE]")
    # A clean end without a word.
    assert len(truncated.tokens) == len(truncated.events) == 4
    # 200 was said already: the error comes in the stream, before [DONE].
    assert (failed.status, len(failed.tokens)) == (200, 3)
    assert failed.events[-2]["error"]["code"] == 500
    assert failed.events[-1] == "[DONE]"
    assert samples(server.port)["vllm:kv_cache_usage_perc"] == 0
    rows = server.ledger()
    found = [(rows[f"r{n}"]["status"], len(rows[f"r{n}"]["token_s"])) for n in range(5)]
    assert found[2:] == [("truncate", 4), ("error", 3), ("reset", 2)]


def test_refusals_last_as_long_as_scripted_and_say_for_how_long(emulator: StartEmulator) -> None:
    faults = ("--fault", "refuse:for=1s,status=429", "--fault", "unhealthy:for=1s")
    server = emulator(*TINY, *faults)
    assert get(server.port, "/health").status == 503
    refused = post(server.port, ask())
    assert (refused.status, refused.headers["retry-after"] in ("1", "2")) == (429, True)
    until_s = time.monotonic() + 10
    while post(server.port, ask()).status != 200:
        assert time.monotonic() < until_s
        time.sleep(0.1)
    assert get(server.port, "/health").status == 200


def test_a_restart_cuts_streams_and_begins_counting_at_zero(emulator: StartEmulator) -> None:
    server = emulator("--profile", "steady", "--fault", "restart:at=1500ms,for=500ms")
    before = samples(server.port)["process_start_time_seconds"]
    sock = open_stream(server.port, ask(500), "cut")
    with pytest.raises(ConnectionResetError):
        _read_to_the_end(sock)
    sock.close()
    with pytest.raises(ConnectionError):
        post(server.port, ask())
    time.sleep(0.6)
    after = samples(server.port)
    assert after["process_start_time_seconds"] > before
    assert after["vllm:generation_tokens_total"] == after["vllm:kv_cache_usage_perc"] == 0
    assert post(server.port, ask(3)).tokens == [" w0", " w1", " w2"]
    assert server.ledger()["cut"]["status"] == "reset"


def _read_to_the_end(sock: socket.socket) -> None:
    while sock.recv(65_536):
        pass
