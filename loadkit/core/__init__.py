"""Every scheduling decision of a continuous-batching engine, pure: it never waits, reads a clock or draws.

A host drives it: `step = begin_step(now_s)`, let `cost(step)` seconds pass on whatever clock it has,
`finish_step(step, now_s)`. The simulator does so in virtual time, the emulator in wall time.
"""

from loadkit.core.cost import PROFILES, Profile, StepCost, profile_from_toml
from loadkit.core.draft import PolicyError
from loadkit.core.jobs import Job
from loadkit.core.limits import EngineLimits
from loadkit.core.policies import POLICIES, EngineView, Policy, Refusal, queue_bound
from loadkit.core.policy_text import parse_policy, policy_from_toml
from loadkit.core.scheduler import Scheduler
from loadkit.core.sequence import Event, EvictionReason, Sequence, Step, Token
from loadkit.core.slots import SlotPool

__all__ = [
    "POLICIES",
    "PROFILES",
    "EngineLimits",
    "EngineView",
    "Event",
    "EvictionReason",
    "Job",
    "Policy",
    "PolicyError",
    "Profile",
    "Refusal",
    "Scheduler",
    "Sequence",
    "SlotPool",
    "Step",
    "StepCost",
    "Token",
    "parse_policy",
    "policy_from_toml",
    "profile_from_toml",
    "queue_bound",
]
