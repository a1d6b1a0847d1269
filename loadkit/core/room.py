"""Who may take room and from whom: headroom for urgent work, and eviction in its favour."""

from collections.abc import Sequence as Rows

from loadkit.core.blocks import BlockPool
from loadkit.core.limits import EngineLimits
from loadkit.core.orders import is_deferrable
from loadkit.core.policies import Headroom, Policy
from loadkit.core.sequence import Sequence


def check_headroom(headroom: Headroom | None, slots: int) -> None:
    """Raises ValueError for a headroom under which batch could never start."""
    if headroom and headroom.unit == "slots" and headroom.amount >= slots:
        raise ValueError(f"a headroom of {headroom.amount} leaves none of {slots} slots to batch")


def batch_of(running: Rows[Sequence]) -> list[Sequence]:
    """Those in deferrable lanes, in the order they started."""
    return [seq for seq in running if is_deferrable(seq.lane)]


def leaves_headroom(
    headroom: Headroom | None,
    limits: EngineLimits,
    blocks: BlockPool,
    running: Rows[Sequence],
    seq: Sequence,
) -> bool:
    """Whether the headroom would still be free if `seq`, of a batch lane, started now."""
    if headroom is None:
        return True
    if headroom.unit == "slots":
        return limits.max_num_seqs - len(running) > headroom.amount
    if not running:
        return True  # headroom for nobody: else a long prompt could wait for ever
    in_tokens = headroom.unit == "tokens"
    kept = blocks.blocks_for(headroom.amount) if in_tokens else headroom.amount
    return blocks.free_blocks - blocks.blocks_for(seq.known_tokens) >= kept


def victim_for(
    policy: Policy, running: Rows[Sequence], seq: Sequence, now_s: float
) -> Sequence | None:
    """Whose place `seq` may take. Nobody yields to the less urgent, or in the step it started in."""
    if policy.preemption is None or is_deferrable(seq.lane):
        return None
    batch = batch_of(running)
    if len(batch) <= policy.floor:
        return None
    key = policy.order(seq)
    batch = [one for one in batch if one.started_s < now_s and policy.order(one) > key]
    return next(iter(policy.preemption.victims(batch, 1, now_s)), None)
