"""Results on stdout."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document; NaN and infinity are not JSON and must have become null before."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
