"""Who is this server, and every way in which it may refuse to be tested."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from observe_server import Handler, answers, events, hangs, serving, text

from loadkit.errors import InputError, LoadkitError, TargetError
from loadkit.model import Target
from loadkit.observe import preflight
from loadkit.observe.preflight import ProbeResult, TargetInfo, identify, probe

VLLM_METRICS = """\
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:cache_config_info{block_size="32",engine="0",num_gpu_blocks="48"} 1.0
vllm:cache_config_info{block_size="32",engine="1",num_gpu_blocks="48"} 1.0
"""
TINY = {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 1024}]}
TOKEN = {"id": "cmpl-1", "choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}
OK = events(TOKEN, USAGE, "[DONE]")


def identified(routes: dict[str, Handler], **target: object) -> TargetInfo:
    async def main() -> TargetInfo:
        async with serving(routes) as url:
            return await identify(Target(url, **target), {"KEY": "s3cret"})  # type: ignore[arg-type]

    return asyncio.run(main())


def probed(handler: Handler, timeout_s: float = 5.0, **target: object) -> ProbeResult:
    async def main() -> ProbeResult:
        async with serving({"/v1/completions": handler}) as url:
            return await probe(
                Target(url, **target),  # type: ignore[arg-type]
                b'{"model":"m"}',
                models=("tiny", "small"),
                environ={"KEY": "s3cret"},
                timeout_s=timeout_s,
            )

    return asyncio.run(main())


def test_a_vllm_server_is_told_with_its_capacity_and_reasons_for_the_rest() -> None:
    info = identified(
        {
            "/v1/models": answers(TINY),
            "/metrics": text(VLLM_METRICS),
            "/version": answers({"version": "0.32.0"}),
        }
    )
    assert (info.engine, info.version, info.model, info.max_model_len) == (
        "vllm",
        "0.32.0",
        "tiny",
        1024,
    )
    assert info.capacity == {"kv_blocks": 96.0, "kv_block_tokens": 32.0}
    assert "preemptions_total" in info.metrics
    assert "max_num_seqs" in info.unknown
    assert "so far" in info.unknown["requests_waiting"]


def test_llamacpp_tells_its_slots_in_props_and_has_no_metrics_unless_asked() -> None:
    info = identified(
        {
            "/v1/models": answers({"data": [{"id": "t", "owned_by": "llamacpp"}]}),
            "/metrics": answers({"error": {"code": 501}}, status=501),
            "/props": answers(
                {
                    "total_slots": 4,
                    "build_info": "b11434",
                    "default_generation_settings": {"n_ctx": 1024},
                }
            ),
        }
    )
    assert (info.engine, info.version, info.max_model_len) == ("llamacpp", "b11434", 1024)
    assert info.capacity == {"max_num_seqs": 4.0}
    assert info.metrics == ()
    assert info.unknown["requests_running"] == "/metrics: HTTP 501"


def test_the_emulator_tells_its_policy_and_so_does_vllm_in_development_mode() -> None:
    emulator = identified(
        {
            "/v1/models": answers({"data": [{"id": "t", "owned_by": "loadkit"}]}),
            "/version": answers({"version": "loadkit-0.1", "policy": "reserve:8+preempt"}),
        }
    )
    config = {"vllm_config": {"scheduler_config": {"policy": "priority", "max_num_seqs": 8}}}
    vllm = identified(
        {
            "/v1/models": answers(TINY),
            "/version": answers({"version": "0.32.0"}),
            "/server_info": answers(config),
        }
    )
    assert (emulator.engine, emulator.policy) == ("loadkit-emulator", "reserve:8+preempt")
    assert (vllm.policy, vllm.capacity) == ("priority", {"max_num_seqs": 8.0})


def test_sglang_tells_its_slots_in_server_info() -> None:
    info = identified(
        {
            "/v1/models": answers({"data": [{"id": "t", "owned_by": "sglang"}]}),
            "/server_info": answers({"version": "0.5.23", "max_running_requests": 32}),
        }
    )
    assert (info.engine, info.version) == ("sglang", "0.5.23")
    assert info.capacity == {"max_num_seqs": 32.0}


def test_transformers_is_known_by_its_paths_and_loads_any_model() -> None:
    routes = {
        "/v1/models": answers({"data": [{"id": "other", "owned_by": "hf"}]}),
        "/openapi.json": answers({"paths": {"/load_model": {}}}),
    }
    assert identified(routes, model="./tiny").engine == "transformers"


def test_an_unknown_server_is_plain_openai() -> None:
    info = identified({"/v1/models": answers({"data": [{"id": "m", "owned_by": "acme"}]})})
    assert (info.engine, info.metrics, info.capacity) == ("openai", (), {})


def test_a_server_without_a_list_of_models_needs_a_name() -> None:
    assert identified({}, model="m", engine="vllm").model == "m"
    with pytest.raises(InputError, match="does not tell which models"):
        identified({"/v1/models": text("<html>")})


def test_models_to_choose_from_are_listed() -> None:
    routes = {"/v1/models": answers({"data": [{"id": "a"}, {"id": "b\x1b[31m"}]})}
    with pytest.raises(InputError, match="several models") as several:
        identified(routes)
    assert several.value.hint == "choose with --model; it serves a, b\\x1b[31m"
    with pytest.raises(InputError, match="no model 'c'") as unknown:
        identified(routes, model="c")
    assert "it serves a, b" in unknown.value.hint


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_says_where_it_came_from_and_never_shows_it(status: int) -> None:
    refusing = {"/v1/models": answers({"error": "no"}, status=status)}
    with pytest.raises(InputError) as without:
        identified(refusing)
    assert "--api-key-env" in without.value.hint
    with pytest.raises(InputError) as wrong:
        identified(refusing, api_key_env="KEY")
    assert "$KEY" in wrong.value.hint
    assert "s3cret" not in wrong.value.message + wrong.value.hint
    with pytest.raises(InputError, match="NOPE is not set"):
        identified(refusing, api_key_env="NOPE")


def test_the_key_goes_out_as_a_bearer_token() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response(TINY)

    identified({"/v1/models": handler}, api_key_env="KEY")
    assert seen == ["Bearer s3cret"]


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown engine 'vlm'") as caught:
        identified({"/v1/models": answers(TINY)}, engine="vlm")
    assert "vllm" in caught.value.hint


def failure(url: str, **target: object) -> LoadkitError:
    with pytest.raises(LoadkitError) as caught:
        asyncio.run(identify(Target(url, **target), {}))  # type: ignore[arg-type]
    return caught.value


def test_a_port_nobody_listens_on() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        error = failure(url)
    assert isinstance(error, TargetError)
    assert error.exit_code == 4
    assert error.message == f"{url}: connection refused"


def test_a_host_that_does_not_exist() -> None:
    assert "cannot be resolved" in failure("http://no-such-host.invalid:8000").message


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "ASK_TIMEOUT_S", 0.2)
    with pytest.raises(TargetError, match="no answer in time"):
        identified({"/v1/models": hangs})


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8000", "not the URL of a server"),
        ("ftp://host", "not the URL of a server"),
        ("http://", "not the URL of a server"),
        ("http://host:99999", "not a URL"),
        ("http://host?a=1", "not the URL of a server"),
        ("http://host:8000/v1", "ends in /v1"),
        ("http://user:s3cret@host", "holds a user name or password"),
    ],
)
def test_a_url_that_cannot_be_a_target(url: str, said: str) -> None:
    error = failure(url)
    assert isinstance(error, InputError)
    assert said in error.message
    assert "s3cret" not in error.message + error.hint


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02"])
def test_something_that_does_not_speak_http(answer: bytes) -> None:
    async def main() -> None:
        async with raw_server(answer) as url:
            await identify(Target(url), {})

    with pytest.raises(TargetError, match="without a whole HTTP answer") as caught:
        asyncio.run(main())
    assert "https" in caught.value.hint


CERTIFICATE_COMMAND = """\
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem
-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key beside it."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        CERTIFICATE_COMMAND.split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem"


async def identified_over_tls(certificate: Path, target: Target) -> TargetInfo:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    async with serving({"/v1/models": answers(TINY)}, context) as url:
        return await identify(replace(target, url=url), {})


def test_a_self_signed_certificate_is_named_and_its_remedy_works(certificate: Path) -> None:
    with pytest.raises(TargetError, match="TLS certificate is not trusted") as caught:
        asyncio.run(identified_over_tls(certificate, Target("")))
    assert "--ca-file" in caught.value.hint
    trusting = Target("", ca_file=str(certificate))
    assert asyncio.run(identified_over_tls(certificate, trusting)).engine == "vllm"
    insecure = Target("", insecure=True)
    assert asyncio.run(identified_over_tls(certificate, insecure)).engine == "vllm"


def test_tls_towards_a_plain_server_says_so() -> None:
    async def main() -> None:
        async with serving({}) as url:
            await identify(Target(url.replace("http:", "https:")), {})

    with pytest.raises(TargetError, match="TLS failed") as caught:
        asyncio.run(main())
    assert "http://" in caught.value.hint


def test_a_ca_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        error = failure("https://127.0.0.1:1", ca_file=str(path))
        assert isinstance(error, InputError)
        assert str(path) in error.message


def test_a_probe_returns_what_came_and_when() -> None:
    result = probed(events(TOKEN, USAGE, "[DONE]", gap_s=0.05))
    assert result.streamed
    assert result.reply.usage == (4, 1, None)
    assert result.reply.first_token_s is not None
    assert 0 < result.reply.first_token_s < result.duration_s


def test_an_answer_in_one_piece_is_an_error_only_where_a_stream_was_asked_for() -> None:
    whole = answers({**TOKEN, "usage": USAGE["usage"]})
    with pytest.raises(InputError, match="in one piece") as caught:
        probed(whole)
    assert "--no-stream" in caught.value.hint
    assert probed(whole, stream=False).reply.usage == (4, 1, None)


MODEL = {"error": {"message": "The model `m` does not exist.", "code": 404}}


@pytest.mark.parametrize(
    ("handler", "kind", "said", "hint"),
    [
        (answers({"error": "key"}, 401), InputError, "401", "--api-key-env"),
        (answers(MODEL, 404), InputError, "does not exist", "it serves tiny, small"),
        (answers({"detail": "Not Found"}, 404), InputError, "Not Found", "--api chat"),
        (answers({"detail": "no"}, 405), InputError, "405", "--api chat"),
        (
            answers({"error": {"message": "no chat template"}}, 400),
            InputError,
            "template",
            "--api completions",
        ),
        (answers({"detail": [{"msg": "extra"}]}, 422), InputError, "extra", "--engine"),
        (answers({"error": {"message": "busy"}}, 503), TargetError, "rejected", "other load"),
        (answers({"error": {"message": "died"}}, 500), TargetError, "died", "log"),
        (text("<html>proxy</html>", 502), TargetError, "proxy", "log"),
        (text("<html>hello</html>"), TargetError, "not a JSON object", "log"),
        (
            events({"error": {"message": "full", "code": 503}}, "[DONE]"),
            TargetError,
            "rejected",
            "other load",
        ),
        (events(TOKEN, {"error": {"message": "died"}}), TargetError, "stream_error", "log"),
        (events(), TargetError, "truncated", "log"),
        (hangs, TargetError, "no answer in time", "firewall"),
    ],
)
def test_every_refusal_of_a_probe_has_a_remedy(
    handler: Handler, kind: type[LoadkitError], said: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        probed(handler, timeout_s=0.5)
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_good_probe_raises_nothing() -> None:
    assert probed(OK, api_key_env="KEY").http_status == 200
