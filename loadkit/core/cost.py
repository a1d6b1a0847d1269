"""How long a step takes. A model of an accelerator, not a measurement of one: profiles say what they fit."""

import math
import tomllib
from dataclasses import dataclass, fields

from loadkit.core.sequence import Step


@dataclass(frozen=True, slots=True)
class StepCost:
    """`max(base, prefill tokens x prefill) + decoding sequences x decode`, in seconds.

    The weights are read once a step whatever it computes (`base_s`, memory-bound); the arithmetic of a
    prefill hides behind that until it is the longer (roofline). Each decoding sequence adds the read of
    its own keys and values, taken as one constant.
    """

    base_s: float
    prefill_s_per_token: float
    decode_s_per_seq: float
    swap_s_per_token: float = 0.0
    """Copying a token's keys and values to the host or back, where a policy evicts by swap."""

    def __call__(self, step: Step) -> float:
        prefill_s = step.prefill_tokens * self.prefill_s_per_token
        work_s = max(self.base_s, prefill_s) + len(step.decodes) * self.decode_s_per_seq
        return work_s + step.swapped_tokens * self.swap_s_per_token


@dataclass(frozen=True, slots=True)
class Profile:
    """An engine's size and speed under one name."""

    cost: StepCost
    kv_blocks: int
    """Blocks of 16 tokens that the card's memory holds beside the weights."""
    about: str


PROFILES = {
    "h100-8b": Profile(
        # Swap: 128 KiB of keys and values a token over 50 GB/s.
        StepCost(
            6e-3, prefill_s_per_token=15.3e-6, decode_s_per_seq=40e-6, swap_s_per_token=2.6e-6
        ),
        kv_blocks=28_000,
        about="an 8B model in 8 bits on an 80 GB H100: 65k prompt tokens/s, 7 ms a token alone, "
        "9 ms with 64 streams of about 1,000 tokens of context",
    ),
    "steady": Profile(
        StepCost(base_s=20e-3, prefill_s_per_token=0.0, decode_s_per_seq=0.0),
        kv_blocks=65_536,
        about="every step takes 20 ms: streams of one exact inter-token latency at any load",
    ),
    "tiny": Profile(
        StepCost(base_s=1e-3, prefill_s_per_token=5e-6, decode_s_per_seq=20e-6),
        kv_blocks=4_096,
        about="fast steps for tests and demonstrations: about 1 ms a token",
    ),
}


def profile_from_toml(text: str) -> Profile:
    """An engine of one's own, e.g. fitted to a server: keys are the fields of `StepCost` and `kv_blocks`.

    `base_s = 0.02`, `prefill_s_per_token = 40e-6`, `decode_s_per_seq = 0`, `kv_blocks = 4096`; what is left
    out is 0, but for `base_s` and `kv_blocks`. Raises ValueError.
    """
    values = tomllib.loads(text)
    names = [*(field.name for field in fields(StepCost)), "kv_blocks"]
    for name, value in values.items():
        if name not in names:
            raise ValueError(f"unknown key {name[:40]!r}; known: {', '.join(names)}")
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0")
    kv_blocks = values.pop("kv_blocks", 0)
    if type(kv_blocks) is not int or kv_blocks < 1:
        raise ValueError("kv_blocks must be a whole number of at least 1")
    if not values.get("base_s"):
        raise ValueError("base_s, the seconds of an empty step, must be above 0")
    optional = {"prefill_s_per_token": 0.0, "decode_s_per_seq": 0.0}
    return Profile(StepCost(**(optional | values)), kv_blocks, about="given as TOML")
