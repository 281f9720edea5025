"""Switch off the reports that libraries send of their own accord, before any of them is imported.

The libraries read these variables once, when they start, and child processes inherit them. Some of
them import each other: diffusers imports onnxruntime, for example. So ``import equipoise`` sets all
of them first.
"""

import os

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime: events, and a device id in the cache folder
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, transformers, diffusers, hf_xet
    "RAY_USAGE_STATS_ENABLED": "0",  # a Ray cluster that equipoise starts
    "MLFLOW_DISABLE_TELEMETRY": "1",  # mlflow: which of its functions are called
    "WANDB_ERROR_REPORTING": "0",  # wandb: its own errors, even where it is offline
    "FIFTYONE_DO_NOT_TRACK": "true",  # fiftyone: that it is imported, and on what system
}


def switch_off() -> None:
    """Set each switch that the user has not set."""
    for name, off in SWITCHES.items():
        if not os.environ.get(name):
            os.environ[name] = off
