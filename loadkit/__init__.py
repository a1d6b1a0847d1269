"""loadkit: replay a trace of LLM requests against a live inference server and say what happened."""

__version__ = "0.1.0"
