"""Chat sessions of one tenant: every arrival starts one, further turns follow on what was said."""

from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loadkit.trace.raw import Seconds
from loadkit.trace.synth.presets import Chat
from loadkit.trace.synth.process import Counts, Day, from_quantiles, whole_lognormal

BLOCK_TOKENS = 64
_SERVICE_S_PER_TOKEN = 0.03
"""Nominal; splits a recorded gap between turns into service and think time."""
_GAP_MEDIAN_S_MIN = 2.0
_SESSION_S_MAX = 3600.0
_OWN_BLOCKS_FROM = 1_000_000


@dataclass(frozen=True, slots=True)
class ChatRows:
    """Rows of one tenant, by session, then turn."""

    session: Counts
    turn: Counts
    arrival_s: Seconds
    think_s: Seconds
    """NaN for a first turn."""
    prompt_tokens: Counts
    output_tokens: Counts
    shared_blocks: Counts
    """Leading blocks that are the tenant's system prompt."""
    shared_first_id: Counts
    own_first_id: Counts


def mean_turns(chat: Chat) -> float:
    """Expected turns per session: 1 + p1 + p1 p2 + …"""
    return 1.0 + float(np.cumprod(_continue_shares(chat)).sum())


def _continue_shares(chat: Chat) -> Seconds:
    shares = np.full(chat.turns_max - 1, chat.continue_shares[-1])
    shares[: len(chat.continue_shares)] = chat.continue_shares
    return shares


def gap_scale(chat: Chat, day: Day) -> float:
    """Gaps between turns shrink with the day, but the median stays at 2 s or more."""
    return min(1.0, max(day.compression, _GAP_MEDIAN_S_MIN / exp(chat.gap_s.mu)))


def warm_up_s(chat: Chat, day: Day) -> float:
    """How long before the trace sessions must start, so that its first minutes have later turns."""
    return _SESSION_S_MAX * gap_scale(chat, day)


def chat_rows(
    chat: Chat, starts_s: Seconds, end_s: float, day: Day, rng: np.random.Generator
) -> ChatRows:
    """Play sessions from their starts; keep the turns that arrive inside [0, end_s)."""
    system_tokens = rng.integers(*chat.system_prompt_tokens, len(chat.system_prompt_shares))
    count = starts_s.size
    system = rng.choice(len(system_tokens), count, p=chat.system_prompt_shares)
    goes_on = rng.random((count, chat.turns_max - 1)) < _continue_shares(chat)
    turns = 1 + np.cumprod(goes_on, axis=1).sum(axis=1)
    least = system_tokens[system] + 1
    prompt = from_quantiles(chat.prompt_tokens, count, rng)
    prompt = np.clip(prompt, least, chat.context_tokens_max)
    played = _played(chat, starts_s, turns, prompt, gap_scale(chat, day), rng)
    kept = _inside(played, end_s)
    return ChatRows(
        *kept,
        shared_blocks=(system_tokens // BLOCK_TOKENS)[system[kept.session]],
        shared_first_id=system[kept.session] * 1000,
        own_first_id=_OWN_BLOCKS_FROM
        + kept.session * (chat.context_tokens_max // BLOCK_TOKENS + 1),
    )


class _Turns(NamedTuple):
    """Turns as columns."""

    session: Counts
    turn: Counts
    arrival_s: Seconds
    think_s: Seconds
    prompt_tokens: Counts
    output_tokens: Counts


def _played(
    chat: Chat,
    starts_s: Seconds,
    turns: Counts,
    prompt: Counts,
    scale: float,
    rng: np.random.Generator,
) -> _Turns:
    """All sessions in step, one turn of each at a time."""
    alive = np.arange(starts_s.size)
    at_s, think_s = starts_s, np.full(starts_s.size, np.nan)
    steps: list[_Turns] = []
    for turn in range(chat.turns_max):
        if turn and not alive.size:
            break
        output = from_quantiles(chat.output_tokens, alive.size, rng)
        steps.append(_Turns(alive, np.full(alive.size, turn), at_s, think_s, prompt, output))
        gap_s = scale * rng.lognormal(*chat.gap_s, alive.size)
        think_s = gap_s - np.minimum(gap_s / 2, _SERVICE_S_PER_TOKEN * output)
        added = whole_lognormal(chat.added_tokens, alive.size, chat.context_tokens_max, rng)
        prompt = prompt + output + added
        stays = (turns[alive] > turn + 1) & (prompt <= chat.context_tokens_max)
        alive, at_s, think_s = alive[stays], (at_s + gap_s)[stays], think_s[stays]
        prompt = prompt[stays]
    return _Turns._make(map(np.concatenate, zip(*steps, strict=True)))


def _inside(played: _Turns, end_s: float) -> _Turns:
    """Sort by session and turn, keep what arrives in the trace, count turns from what is kept."""
    order = np.lexsort((played.turn, played.session))
    arrival_s = played.arrival_s[order]
    order = order[(arrival_s >= 0) & (arrival_s < end_s)]
    kept = _Turns._make(column[order] for column in played)
    first = np.flatnonzero(np.diff(kept.session, prepend=-1))
    dropped = np.repeat(kept.turn[first], np.diff(first, append=kept.session.size))
    turn = kept.turn - dropped
    return kept._replace(turn=turn, think_s=np.where(turn == 0, np.nan, kept.think_s))


def block_ids(
    blocks: Counts, shared: Counts, shared_first: Counts, own_first: Counts
) -> tuple[npt.NDArray[np.int32], Counts]:
    """Offsets and ids of chained blocks: a shared lead, then blocks of the session's own.

    A session's context only grows, so its n-th block keeps its id from turn to turn.
    """
    offsets = np.concatenate(([0], np.cumsum(blocks)))
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], blocks)
    is_shared = position < np.repeat(np.minimum(shared, blocks), blocks)
    first = np.where(is_shared, np.repeat(shared_first, blocks), np.repeat(own_first, blocks))
    return offsets.astype(np.int32), first + position
