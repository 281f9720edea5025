"""Switch off the reports that onnxruntime sends of its own accord, before it is imported."""

import os

SWITCH = "ORT_DISABLE_TELEMETRY"


def switch_off() -> None:
    """Set the switch, unless the user has set it."""
    if not os.environ.get(SWITCH):
        os.environ[SWITCH] = "1"
