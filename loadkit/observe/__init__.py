"""The target's own word: who it is before a run, and its numbers during one.

Sends no load: the only generation is the preflight's probe.
"""
