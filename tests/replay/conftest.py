"""The fixtures of `replay_helpers`, for every test of this folder."""

from replay_helpers import replay, start_replay, write_trace

__all__ = ["replay", "start_replay", "write_trace"]
