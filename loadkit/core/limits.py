"""The size of an engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The size of an engine. Raises ValueError where a request could wait for ever."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    """Token budget of a step."""
    kv_blocks: int = 4096
    block_tokens: int = 16
    max_model_len: int = 32_768
    """Most tokens of prompt and output together."""
    chunk_tokens: int | None = 2048
    """Most tokens of one prompt in one step; None = a prompt is computed whole (no chunked prefill)."""
    prefix_cache: bool = True

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.kv_blocks, self.block_tokens, self.max_model_len) < 1:
            raise ValueError("slots, KV blocks, block size and model length must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("the token budget of a step must be at least the number of slots")
        if self.chunk_tokens is not None and self.chunk_tokens < 1:
            raise ValueError("a prefill chunk must be at least 1 token")
        if self.chunk_tokens is None and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunked prefill the token budget must hold a whole prompt")
        if self.kv_blocks * self.block_tokens < self.max_model_len:
            raise ValueError("the KV blocks must hold at least one request of the model's length")
