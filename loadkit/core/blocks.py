"""KV cache blocks: who holds them, which can be shared, which is given away first. Knows no sequences.

A block is free when nobody refers to it. A free block keeps its contents, findable by hash, until it
is handed out again; free blocks are handed out least recently freed first (LRU), as in vLLM.
"""

from collections import OrderedDict
from collections.abc import Iterable


class BlockPool:
    """`num_blocks` blocks of `block_tokens` tokens each."""

    __slots__ = ("_block_of", "_free", "_hash_of", "_refs", "block_tokens", "num_blocks")

    def __init__(self, num_blocks: int, block_tokens: int) -> None:
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._refs = [0] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._hash_of: dict[int, int] = {}
        self._block_of: dict[int, int] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks nobody refers to; those with cached contents included."""
        return len(self._free)

    @property
    def used_blocks(self) -> int:
        return self.num_blocks - len(self._free)

    def shares(self, blocks: Iterable[int]) -> float:
        """How many blocks these are when one that n refer to counts 1/n for each: over all who hold
        blocks the sum is `used_blocks`."""
        refs = self._refs
        return sum([1 / refs[block] for block in blocks])

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def match(self, hashes: Iterable[int], limit: int) -> list[int]:
        """The blocks that hold the longest cached prefix of `hashes`, at most `limit`. Changes nothing."""
        found: list[int] = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None or len(found) >= limit:
                break
            found.append(block)
        return found

    def free_among(self, blocks: Iterable[int]) -> int:
        return sum(self._refs[block] == 0 for block in blocks)

    def share(self, blocks: Iterable[int]) -> None:
        """Refer once more to each of `blocks`."""
        for block in blocks:
            if self._refs[block] == 0:
                del self._free[block]
            self._refs[block] += 1

    def take(self, count: int) -> list[int]:
        """`count` free blocks, their cached contents forgotten. The caller has checked `free_blocks`."""
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._refs[block] = 1
            self._forget(block)
        return taken

    def release(self, blocks: list[int]) -> None:
        """Refer once less to each. The tail of a sequence goes first: prefixes are shared, tails are not."""
        for block in reversed(blocks):
            self._refs[block] -= 1
            if self._refs[block] == 0:
                self._free[block] = None

    def remember(self, block: int, block_hash: int) -> None:
        """`block` now holds these contents. The first block with the same contents stays the cached one."""
        if block_hash not in self._block_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]
