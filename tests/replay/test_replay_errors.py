"""Bad input: two lines, the right exit code, nothing left behind."""

import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from replay_helpers import Finished, Replay, StartEmulator, WriteTrace


@pytest.fixture
def trace(write_trace: WriteTrace) -> Path:
    return write_trace([{"arrival_s": 0.1 * i} for i in range(5)])


def expect_error(done: Finished, code: int, *words: str) -> None:
    lines = done.err.strip().splitlines()
    assert (done.code, len(lines)) == (code, 2), done.err
    assert lines[0].startswith("loadkit: ")
    assert lines[1].startswith("  hint: ")
    for word in words:
        assert word in done.err
    assert not done.run.exists()


UNUSED = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("header.csv", b"arrival_s,prompt_tokens,output_tokens\n"),
        ("binary.bin", bytes(range(256)) * 40),
        ("wrong.csv", b"a,b\n1,2\n"),
        ("cut.csv", b"arrival_s,prompt_tokens,output_tokens\n0.5,10,5\n1.0,1"),
        ("cut.parquet", b"PAR1 and then nothing"),
        ("word.csv", b"arrival_s,prompt_tokens,output_tokens\n0.5,ten,5\n"),
    ],
)
def test_a_trace_that_cannot_be_read(
    replay: Replay, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    expect_error(replay(path, UNUSED), 2, name)


def test_a_trace_that_is_not_there(replay: Replay, tmp_path: Path) -> None:
    expect_error(replay(tmp_path / "none.csv", UNUSED), 2, "none.csv")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--speedup", "10"], "'10'"),
        (["--window", "10m"], "'10m'"),
        (["--timeout", "5"], "'5'"),
        (["--slo", "interactive:ttft:500ms"], "SLO"),
        (["--lane", "night"], "night"),
        (["--slo", "night:ttft:p99:1s"], "night"),
        (["--api", "embeddings"], "embeddings"),
        (["--engine", "bigengine"], "bigengine"),
        (["--header", "Authorization: Bearer sk-123"], "environment variable"),
        (["--header", "nonsense"], "--header"),
    ],
)
def test_an_option_with_a_wrong_value(
    replay: Replay, trace: Path, options: list[str], word: str
) -> None:
    done = replay(trace, UNUSED, *options)

    expect_error(done, 2, word)
    assert "sk-123" not in done.err


def test_an_unknown_option(replay: Replay, trace: Path) -> None:
    expect_error(replay(trace, UNUSED, "--sped-up", "2x"), 2, "--sped-up", "loadkit replay --help")
    expect_error(replay(trace, UNUSED, "--speedup"), 2, "--speedup")


def test_no_target_at_all(replay: Replay, trace: Path) -> None:
    expect_error(replay(trace, ""), 2, "no target")


def test_nobody_listens_at_the_target(replay: Replay, trace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    expect_error(replay(trace, f"http://127.0.0.1:{port}"), 4, str(port))


def test_the_port_of_the_page_is_taken(replay: Replay, trace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])

        expect_error(replay(trace, UNUSED, "--web", port), 2, "--web", port)


def test_a_name_that_does_not_resolve(replay: Replay, trace: Path) -> None:
    expect_error(replay(trace, "http://no-such-host.invalid:8000"), 4, "no-such-host.invalid")


def test_a_model_that_is_not_served_names_the_ones_that_are(
    emulator: StartEmulator, replay: Replay, trace: Path
) -> None:
    expect_error(replay(trace, emulator().url, "--model", "gpt-9"), 2, "gpt-9", "emulated")


def test_a_wrong_or_missing_key(
    emulator: StartEmulator, replay: Replay, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMULATOR_KEY", "right-key-7f3a")
    engine = emulator("--api-key-env", "EMULATOR_KEY")
    wrong = {"CLIENT_KEY": "wrong-key-9e1b"}

    expect_error(replay(trace, engine.url), 2, "401", "--api-key-env")
    done = replay(trace, engine.url, "--api-key-env", "CLIENT_KEY", environ=wrong)
    expect_error(done, 2, "401", "CLIENT_KEY")
    assert "wrong-key" not in done.err
    expect_error(replay(trace, engine.url, "--api-key-env", "UNSET_KEY"), 2, "UNSET_KEY")


def test_a_key_reaches_the_server_and_nothing_else(
    emulator: StartEmulator, replay: Replay, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-secret-4242")
    monkeypatch.setenv("THE_TEAM", "team-secret-77")
    engine = emulator("--api-key-env", "THE_KEY")

    done = replay(trace, engine.url, "--api-key-env", "THE_KEY", "--header", "X-Team: $THE_TEAM")

    assert set(done.requests["status"]) == {"ok"}, done.err
    written = [path for path in done.run.rglob("*") if path.is_file()]
    assert len(written) > 5
    everything = b"".join(path.read_bytes() for path in written)
    everything += (done.out + done.err).encode()
    assert b"sk-secret" not in everything
    assert b"team-secret" not in everything


def test_a_key_that_the_server_repeats_is_blanked(
    answering: Callable[..., http.server.ThreadingHTTPServer], replay: Replay, trace: Path
) -> None:
    def refuse(handler: http.server.BaseHTTPRequestHandler) -> None:
        said = f"Incorrect API key provided: {handler.headers['Authorization']}"
        send_json(handler, {"error": {"message": said}}, 401)

    port = answering(refuse).server_port
    key = {"THE_KEY": "sk-secret-4242"}

    done = replay(trace, f"http://127.0.0.1:{port}", "--api-key-env", "THE_KEY", environ=key)

    expect_error(done, 2, "Incorrect API key", "***")
    assert "sk-secret" not in done.err


def test_an_existing_folder_is_left_alone(
    emulator: StartEmulator, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    command = [sys.executable, "-m", "loadkit", "replay", str(trace), "--target", emulator().url]

    ended = subprocess.run(
        [*command, "-o", str(tmp_path / "mine")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == 2
    assert "already exists" in ended.stderr
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@pytest.fixture
def answering() -> Iterator[Callable[..., http.server.ThreadingHTTPServer]]:
    """A server that lists the model `m` and answers a POST as told."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(post: Answer, tls: ssl.SSLContext | None = None) -> http.server.ThreadingHTTPServer:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                models = self.path == "/v1/models"
                send_json(self, {"data": [{"id": "m"}]} if models else {}, 200 if models else 404)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                post(self)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def send_json(handler: http.server.BaseHTTPRequestHandler, value: object, status: int) -> None:
    body = json.dumps(value).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


COMPLETION = {
    "choices": [{"text": "a b c", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3},
}


def whole(handler: http.server.BaseHTTPRequestHandler) -> None:
    send_json(handler, COMPLETION, 200)


def test_an_answer_in_one_piece_where_a_stream_was_asked_for(
    answering: Callable[..., http.server.ThreadingHTTPServer], replay: Replay, trace: Path
) -> None:
    server = answering(whole)

    expect_error(replay(trace, f"http://127.0.0.1:{server.server_port}"), 2, "--no-stream")


def test_without_streaming_there_is_no_first_token_and_it_is_null(
    answering: Callable[..., http.server.ThreadingHTTPServer], replay: Replay, trace: Path
) -> None:
    server = answering(whole)

    done = replay(trace, f"http://127.0.0.1:{server.server_port}", "--no-stream")

    assert set(done.requests["status"]) == {"ok"}, done.err
    assert done.requests["first_token_s"].isna().all()
    assert (done.requests["output_tokens"] == 3).all()
    assert done.summary["lanes"]["interactive"]["ttft_s"]["p99"] is None
    assert done.summary["lanes"]["interactive"]["e2e_s"]["p50"] > 0


def test_a_certificate_that_nobody_vouches_for(
    answering: Callable[..., http.server.ThreadingHTTPServer],
    replay: Replay,
    trace: Path,
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    url = f"https://127.0.0.1:{answering(whole, context).server_port}"

    expect_error(replay(trace, url, "--no-stream"), 4, "certificate", "--ca-file")
    done = replay(trace, url, "--no-stream", "--ca-file", str(tmp_path / "ca.pem"))
    assert set(done.requests["status"]) == {"ok"}, done.err


def test_tls_spoken_to_a_server_without_it(
    emulator: StartEmulator, replay: Replay, trace: Path
) -> None:
    url = emulator().url.replace("http:", "https:")

    expect_error(replay(trace, url), 4)


def test_a_dry_run_sends_nothing_and_needs_no_target(replay: Replay, trace: Path) -> None:
    done = replay(trace, "", "--dry-run")

    assert done.code == 0
    assert "5 requests" in done.out
    assert "nothing was sent" in done.out
    assert not done.run.exists()


def test_names_of_a_trace_cannot_steer_the_terminal(
    emulator: StartEmulator, replay: Replay, write_trace: WriteTrace
) -> None:
    odd = "\x1b[31mred\x07" + "x" * 5000
    trace = write_trace([{"arrival_s": 0.0, "lane": odd}, {"arrival_s": 0.1, "lane": "a\nb"}])

    done = replay(trace, emulator("--profile", "tiny").url)

    assert "\\x1b[31mred" in done.out
    summary = (done.run / "report" / "summary.md").read_text()
    for text in (done.out, done.err, summary):
        assert "\x1b" not in text
    assert max(map(len, done.out.splitlines())) < 400
