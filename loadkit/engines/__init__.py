"""Wire formats and metric vocabularies: bytes ⇄ events, Prometheus text → canonical samples.

Opens no socket and reads no clock, so that every cutting of every answer can be tested.
"""

from loadkit.engines.adapters import ENGINES, Engine, encode_body, engine_priority, request_path
from loadkit.engines.headers import lane_headers, request_headers
from loadkit.engines.outcome import Outcome, outcome, retry_after_s
from loadkit.engines.reply import Api, Reply, ReplyError, Timings, Usage
from loadkit.engines.stream import StreamReader, read_body

__all__ = [
    "ENGINES",
    "Api",
    "Engine",
    "Outcome",
    "Reply",
    "ReplyError",
    "StreamReader",
    "Timings",
    "Usage",
    "encode_body",
    "engine_priority",
    "lane_headers",
    "outcome",
    "read_body",
    "request_headers",
    "request_path",
    "retry_after_s",
]
