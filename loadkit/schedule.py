"""What to send and when: Trace to Schedule, pure."""
