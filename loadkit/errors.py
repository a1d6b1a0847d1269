"""One tree of errors: a message (what and where), a hint (what to do) and the exit code it ends in."""


class LoadkitError(Exception):
    """Any failure that a user can act on. Shown as two lines, never as a traceback."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(LoadkitError):
    """Bad usage or bad input: a flag, a unit, a file, an output folder."""


class TraceError(InputError):
    """A trace that cannot be read, with file and line where there is one."""


class RunError(InputError):
    """A run directory that cannot be created, written or read."""


class CriterionFailedError(LoadkitError):
    """An SLO, a comparison or a gate did not pass."""

    exit_code = 1


class InvalidRunError(LoadkitError):
    """The generator, not the server, was the limit: the numbers say nothing about the server."""

    exit_code = 3


class TargetError(LoadkitError):
    """The target cannot be reached, or broke the connection before it could be measured."""

    exit_code = 4


def printable(text: str) -> str:
    """Text with its control characters escaped, lines kept: names in it come from traces and servers."""
    return "".join(
        c if c.isprintable() or c in "\n\u00a0\u202f" else f"\\x{ord(c):02x}" for c in text
    )
