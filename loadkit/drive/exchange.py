"""One request from bytes to facts: what goes on the wire, and the record of what came back."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from loadkit.drive.connection import Response, Take
from loadkit.drive.plan import Plan
from loadkit.engines import (
    ENGINES,
    Api,
    Reply,
    StreamReader,
    encode_body,
    fill_in,
    lane_headers,
    outcome,
    read_body,
    recorded_body,
    request_headers,
    request_path,
    to_json,
)
from loadkit.model import RequestRecord, Send, Status
from loadkit.prompts import PromptMaker


class RequestWriter:
    """Turns the sends of a plan into HTTP requests, quickly enough to do it just ahead of time."""

    def __init__(self, plan: Plan) -> None:
        url = urlsplit(plan.target.url)
        self._plan = plan
        self._engine = ENGINES[plan.engine]
        self._prompts = PromptMaker(plan.calibration, plan.salt)
        self._line = (
            f"POST {url.path.rstrip('/')}{request_path(plan.target.api)} HTTP/1.1\r\n"
            f"Host: {url.netloc.rpartition('@')[2]}\r\n"
        )
        self._headers = {
            "Accept": "text/event-stream" if plan.target.stream else "application/json",
            "Accept-Encoding": "identity",
            **request_headers(plan.target, os.environ),
        }
        self._templates = {
            n: v for n, v in self._headers.items() if "{" in v and n != "Authorization"
        }

    def request(self, send: Send, until_deadline_s: float | None) -> bytes:
        body = self._body(send)
        headers = {**self._headers, "X-Request-Id": header_safe(send.request_id)}
        if self._plan.target.lane_headers:
            headers |= lane_headers(send.lane, send.tenant, send.priority, until_deadline_s)
        if self._templates:
            self._fill_in(headers, send, until_deadline_s)
        headers["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return (self._line + lines + "\r\n").encode("latin-1") + body

    def _fill_in(self, headers: dict[str, str], send: Send, until_deadline_s: float | None) -> None:
        known = {
            "lane": send.lane,
            "tenant": send.tenant,
            "priority": send.priority,
            "deadline_s": until_deadline_s,
        }
        for name, template in self._templates.items():
            value = fill_in(template, known)
            if value is None:
                del headers[name]
            else:
                headers[name] = value

    def _body(self, send: Send) -> bytes:
        """Recorded text is sent as it was; where only lengths were recorded, a prompt is made."""
        target, model = self._plan.target, self._plan.model
        if send.payload is not None:
            return recorded_body(
                self._engine, target.api, send.payload, model=model, stream=target.stream
            )
        prompt_json = self._prompts.json_for(send) if send.prompt is None else to_json(send.prompt)
        return encode_body(
            self._engine,
            target.api,
            prompt_json=prompt_json,
            model=model,
            output_tokens=send.output_tokens,
            priority=send.priority,
            stream=target.stream,
        )


class Instants(NamedTuple):
    """When a request was due and what its connection cost. Seconds from the start of the run."""

    due_s: float
    connect_s: float | None
    start_s: float
    """Start of the run on the monotonic clock."""


class AnswerReader:
    """Reads the body of one response while it arrives, whether or not it is a stream."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stream: StreamReader | None = None
        self._whole = bytearray()

    def begin(self, headers: Mapping[str, str]) -> Take:
        if "text/event-stream" in headers.get("content-type", ""):
            self._stream = StreamReader(self._api)
            return self._stream.feed
        return self._take

    def _take(self, stamp_s: float, data: bytes) -> None:
        """Behind a gateway a stream may have another type: then its first bytes tell."""
        if not self._whole and data.lstrip().startswith((b"data:", b"event:", b":")):
            self._stream = self._stream or StreamReader(self._api)
        if self._stream is not None:
            self._stream.feed(stamp_s, data)
        else:
            self._whole += data

    @property
    def is_stream(self) -> bool:
        return self._stream is not None

    @property
    def begun(self) -> bool:
        """Whether any piece came."""
        return bool(self._whole) or (self._stream is not None and self._stream.begun)

    def finish(self) -> Reply:
        """What it all amounts to."""
        return self._stream.finish() if self._stream else read_body(self._api, bytes(self._whole))


def record(send: Send, at: Instants, response: Response, body: AnswerReader) -> RequestRecord:
    """The facts of one exchange; whatever is not known stays None."""
    reply = body.finish()
    status, error, retry_after_s = _outcome(send, response, body, reply)
    usage = reply.usage
    counted = usage.output_tokens if usage else None
    chunks = len(reply.content_stamps_s) or None
    origin_s, timings = at.start_s, reply.timings
    return unsent_record(
        send,
        at.due_s,
        status,
        error,
        sent_s=response.sent_s - origin_s,
        connect_s=at.connect_s,
        first_byte_s=_since(response.first_byte_s, origin_s),
        first_token_s=_since(reply.first_token_s, origin_s),
        first_answer_s=_since(reply.first_answer_s, origin_s),
        last_token_s=_since(reply.last_token_s, origin_s),
        finished_s=_since(response.finished_s, origin_s),
        chunk_offsets_s=tuple(stamp - response.sent_s for stamp in reply.content_stamps_s) or None,
        prompt_tokens=usage.prompt_tokens if usage else None,
        output_tokens=chunks if counted is None else counted,
        cached_tokens=usage.cached_tokens if usage else None,
        token_source=("chunks" if chunks else None) if counted is None else "usage",
        finish_reason=reply.finish_reason,
        http_status=response.status or None,
        retry_after_s=retry_after_s,
        malformed_events=reply.malformed_events,
        queue_wait_s=timings.queue_wait_s,
        queue_wait_source=None if timings.queue_wait_s is None else "response",
        prefill_s=timings.prefill_s,
        preemptions=timings.preemptions,
        recomputed_tokens=timings.recomputed_tokens,
    )


def unsent_record(
    send: Send, due_s: float, status: Status, error: str | None, **facts: Any
) -> RequestRecord:
    """The row of a request that never went out; of any other, with the `facts` of what came of it."""
    return RequestRecord(
        request_id=send.request_id,
        lane=send.lane,
        scheduled_s=due_s,
        status=status,
        error=error,
        tenant=send.tenant,
        session=send.session,
        turn=send.turn,
        priority=send.priority,
        deadline_s=send.deadline_s,
        planned_s=send.scheduled_s,
        prompt_tokens_planned=send.prompt_tokens,
        output_tokens_planned=send.output_tokens,
        **facts,
    )


def header_safe(text: str) -> str:
    """Any text as a header value: ids that need no escape stay as they are."""
    return quote(text, safe=" ~:/._-#@+=,;()[]")[:256]


def _outcome(
    send: Send, response: Response, body: AnswerReader, reply: Reply
) -> tuple[Status, str | None, float | None]:
    if response.error in ("timeout", "cancelled"):
        return response.error, None, None  # type: ignore[return-value]
    if response.error and (not reply.error or _unreadable(body, reply)):
        begun = body.begun and response.status == 200
        return ("stream_error" if begun else "error"), response.error, None
    return outcome(response.status, reply, response.headers, send.output_tokens)


def _unreadable(body: AnswerReader, reply: Reply) -> bool:
    """What came before the connection broke is no answer: its end is the error, not its look."""
    return not body.is_stream and reply.malformed_events > 0


def _since(instant_s: float | None, origin_s: float) -> float | None:
    return None if instant_s is None else instant_s - origin_s
