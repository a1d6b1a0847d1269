"""Wire formats and metric vocabularies: bytes ⇄ events, Prometheus text → canonical samples.

Opens no socket and reads no clock, so that every cutting of every answer can be tested.
"""

from loadkit.engines.adapters import (
    ENGINES,
    Engine,
    encode_body,
    engine_priority,
    recorded_body,
    request_path,
    to_json,
)
from loadkit.engines.detect import detect_engine, model_cards
from loadkit.engines.headers import fill_in, lane_headers, request_headers, secrets, without_secrets
from loadkit.engines.metrics import Exposition, Sample, absent, parse_metrics
from loadkit.engines.outcome import Outcome, outcome, retry_after_s
from loadkit.engines.reply import Api, Reply, ReplyError, Timings, Usage
from loadkit.engines.stream import StreamReader, read_body

__all__ = [
    "ENGINES",
    "Api",
    "Engine",
    "Exposition",
    "Outcome",
    "Reply",
    "ReplyError",
    "Sample",
    "StreamReader",
    "Timings",
    "Usage",
    "absent",
    "detect_engine",
    "encode_body",
    "engine_priority",
    "fill_in",
    "lane_headers",
    "model_cards",
    "outcome",
    "parse_metrics",
    "read_body",
    "recorded_body",
    "request_headers",
    "request_path",
    "retry_after_s",
    "secrets",
    "to_json",
    "without_secrets",
]
