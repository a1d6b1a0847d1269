"""How text becomes tokens here: a fixed rule in place of a tokenizer, so that anyone can count.

One token per run of word characters, one per other visible character; white space separates. A chat
adds 4 tokens per message and 3 for the reply to come. Prompts given as token ids count exactly.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

VOCAB_SIZE = 128_256
TOKENS_PER_MESSAGE = 4
TOKENS_PER_REPLY = 3
_TOKEN = re.compile(r"\w+|[^\w\s]")

WORDS = tuple(f" w{number}".encode() for number in range(1000))
"""What the engine says: token n of any answer is word n modulo 1000, one token by the rule above."""


class Prompt(NamedTuple):
    tokens: Sequence[int] | Sequence[str]
    """Ids, or the words that stand for them."""
    digest: int
    """Equal for equal prompts: decides where a model left to itself stops."""


def from_ids(ids: list[int]) -> Prompt:
    return Prompt(ids, crc32(repr(ids[:64]).encode()) ^ len(ids))


def from_text(text: str) -> Prompt:
    return Prompt(_TOKEN.findall(text), crc32(text.encode("utf-8", "surrogatepass")))


def from_messages(messages: list[tuple[str, str]]) -> Prompt:
    """(role, content) pairs under the template of this module."""
    words: list[str] = []
    for role, content in messages:
        words += ["<|start|>", role, "<|body|>", *_TOKEN.findall(content), "<|end|>"]
    words += ["<|start|>", "assistant", "<|body|>"]
    return Prompt(words, crc32(repr(messages).encode("utf-8", "surrogatepass")))


def ids(prompt: Prompt) -> list[int]:
    """Stable made-up ids for words; ids as they are."""
    return [t if isinstance(t, int) else _id(t) for t in prompt.tokens]


def _id(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass")) % VOCAB_SIZE


def block_hashes(prompt: Prompt, block_tokens: int, salt: str | None) -> list[int]:
    """Chained hashes of the full blocks: equal hash = equal prompt up to and with that block."""
    tokens: Any = prompt.tokens
    chain: list[int] = []
    parent = hash(salt)
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        parent = hash((parent, *tokens[end - block_tokens : end]))
        chain.append(parent)
    return chain
