"""`loadkit demo`."""


def demo() -> None:
    """Replay a compressed synthetic day against the embedded engine, on this machine."""
