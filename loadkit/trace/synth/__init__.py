"""Synthetic traces: a day of chat in one time zone plus batch jobs, from a preset and a seed.

What is fitted to public traces and what is assumed is said in `presets`. The same parameters, seed
and generator version give the same rows; their sha256 is the identity of the trace.
"""

from loadkit.trace.synth.generate import synthesize
from loadkit.trace.synth.presets import PRESETS, Preset
from loadkit.trace.synth.spec import Spec

__all__ = ["PRESETS", "Preset", "Spec", "synthesize"]
