"""Traces: files that somebody else defined become one canonical table; synthetic ones are made.

Reads, checks, counts and describes. Sends nothing, fetches nothing, and never invents a time, a
lane or a token count without saying so.
"""

from loadkit.trace.files import load, read_table, write
from loadkit.trace.formats import FORMATS
from loadkit.trace.raw import ReadOptions
from loadkit.trace.schema import TRACE_SCHEMA
from loadkit.trace.table import TraceTable

__all__ = ["FORMATS", "TRACE_SCHEMA", "ReadOptions", "TraceTable", "load", "read_table", "write"]
