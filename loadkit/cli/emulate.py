"""`loadkit emulate`."""


def emulate() -> None:
    """Serve the embedded engine."""
