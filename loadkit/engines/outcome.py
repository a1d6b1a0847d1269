"""What became of a request, from all that the server said: HTTP status, headers and Reply.

The HTTP status alone decides nothing good: engines refuse and fail inside a 200 stream. Failures of
the connection (refused, reset, timed out, cancelled) are not judged here; their caller saw them.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from loadkit.engines.reply import Reply, ReplyError
from loadkit.model import Status

_BUSY = frozenset({429, 503})
_GAVE_UP = frozenset({408, 503, 504})
_GAVE_UP_WORDS = re.compile(r"\bdeadline\b|\btimeout reached\b|\brequest expired\b", re.IGNORECASE)
# text-generation-inference streams its overload under code 422, the code of all its errors.
_BUSY_WORDS = re.compile(r"^model is overloaded|\bqueue is full\b", re.IGNORECASE)
_MAX_RETRY_AFTER_S = 86_400.0


class Outcome(NamedTuple):
    status: Status
    error: str | None = None
    """One bounded line; None for `ok`."""
    retry_after_s: float | None = None


def outcome(
    http_status: int,
    reply: Reply,
    headers: Mapping[str, str],
    output_tokens_planned: int | None = None,
) -> Outcome:
    """Judge a complete HTTP answer. `headers` are looked up in lower case.

    Fewer tokens than planned are `ok` where the server gave a finish reason: the counts tell.
    """
    wait_s = retry_after_s(headers)
    if http_status != 200:
        failed = reply.error or ReplyError(http_status, "no reason given")
        status = _refusal(ReplyError(http_status, failed.message)) or "error"
        return Outcome(status, f"HTTP {http_status}: {failed.message}", wait_s)
    if reply.error:
        return Outcome(_in_stream(reply, reply.error), _shown(reply.error), wait_s)
    return _without_error(reply, output_tokens_planned)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds from the answer: a number, or a date measured against `Date`.

    The server's own `Date` is used so that no clock difference gets in; without it a date is None.
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
        return min(float(value), _MAX_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(value)
        now = parsedate_to_datetime(headers.get("date", ""))
        return min(max(0.0, (until - now).total_seconds()), _MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, OverflowError):
        return None


def _refusal(error: ReplyError) -> Status | None:
    if error.code in _GAVE_UP and _GAVE_UP_WORDS.search(error.message):
        return "expired"
    if error.code in _BUSY or _BUSY_WORDS.search(error.message):
        return "rejected"
    return None


def _in_stream(reply: Reply, error: ReplyError) -> Status:
    refusal = _refusal(error)
    if refusal == "expired":
        return refusal
    # Once tokens have come the server had accepted: whatever its code, that is a broken promise.
    return _broken(reply) if reply.has_content else refusal or _broken(reply)


def _broken(reply: Reply) -> Status:
    return "stream_error" if reply.has_content else "error"


def _without_error(reply: Reply, output_tokens_planned: int | None) -> Outcome:
    if reply.finish_reason == "abort":  # SGLang: aborted by the scheduler, not by us
        status: Status = "stream_error" if reply.has_content else "rejected"
        return Outcome(status, "aborted by the server (finish_reason abort)")
    if reply.finish_reason == "error":
        return Outcome(_broken(reply), "failed in the server (finish_reason error)")
    if not reply.ended:
        return Outcome("truncated", _cut(reply, "without [DONE], finish reason or usage"))
    if reply.finish_reason is None:
        return _without_reason(reply, output_tokens_planned)
    return Outcome("ok")


def _without_reason(reply: Reply, output_tokens_planned: int | None) -> Outcome:
    tokens = reply.output_tokens
    if tokens is None and not reply.has_content:
        return Outcome("truncated", _cut(reply, "with [DONE] and nothing before it"))
    if tokens is not None and output_tokens_planned is not None and tokens < output_tokens_planned:
        return Outcome("truncated", f"ended at {tokens} of {output_tokens_planned} tokens")
    return Outcome("ok")


def _cut(reply: Reply, how: str) -> str:
    chunks = f"after {len(reply.content_stamps_s)} content chunks"
    malformed = f", {reply.malformed_events} malformed events" if reply.malformed_events else ""
    return f"the stream ended {how}, {chunks}{malformed}"


def _shown(error: ReplyError) -> str:
    return f"{error.code}: {error.message}" if error.code else error.message
