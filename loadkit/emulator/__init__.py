"""The embedded engine: `core` on wall time behind an OpenAI-compatible server with vLLM's metric names."""

from loadkit.emulator.config import EmulatorConfig
from loadkit.emulator.engine import Engine
from loadkit.emulator.faults import Fault, parse_fault, read_faults
from loadkit.emulator.server import serve

__all__ = ["EmulatorConfig", "Engine", "Fault", "parse_fault", "read_faults", "serve"]
