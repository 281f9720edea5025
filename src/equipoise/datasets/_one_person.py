"""Which pictures show one person, by a detector of transformers.

RT-DETR, D-FINE and YOLOS have the Apache licence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from equipoise._artefact import write_atomically
from equipoise.datasets import _files as files
from equipoise.errors import InputError, MissingExtraError

DETECTOR = "PekingU/rtdetr_r50vd"
PERSON = "person"
# batches between two saves, which is what a kill can lose
SAVE_EVERY = 50


def one_person_images(
    paths: Sequence[files.Where],
    *,
    detector: str = DETECTOR,
    threshold: float = 0.5,
    batch: int = 16,
    device: str | None = None,
    cache: files.Where | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[str]:
    """Return the names of the images that show exactly one person.

    threshold: the least confidence of a person that counts. detector: a model of the hub or a
    folder. cache: a JSON file of the counts so far, from which a run that was stopped goes on; it
    belongs to one detector and threshold. An image that cannot be read counts as showing nobody.
    The paper used YOLOv8, whose licence is AGPL, so counts differ somewhat from its own.
    """
    wanted = [Path(path) for path in paths]
    _require_different_names(wanted)
    counts = _load(cache, detector, threshold)
    todo = [path for path in wanted if path.name not in counts]
    if todo:
        count = _Detector(detector, threshold, device).count
        try:
            for done, start in enumerate(range(0, len(todo), batch), 1):
                part = todo[start : start + batch]
                for path, people in zip(part, count(part), strict=True):
                    counts[path.name] = people
                if done % SAVE_EVERY == 0:
                    _save(cache, detector, threshold, counts)
                if progress is not None:
                    progress(min(start + batch, len(todo)), len(todo))
        finally:
            _save(cache, detector, threshold, counts)
    return [path.name for path in wanted if counts[path.name] == 1]


def _require_different_names(paths: Sequence[Path]) -> None:
    different = set(paths)
    if len({path.name for path in different}) < len(different):
        raise InputError(
            "two images in different folders have the same name, and counts are kept by name"
            " only; pass the images of one folder at a time"
        )


class _Detector:
    """A detector that counts the people in pictures."""

    def __init__(self, name: str, threshold: float, device: str | None):
        try:
            import torch
            from transformers import AutoImageProcessor, AutoModelForObjectDetection
        except ImportError:
            raise MissingExtraError(
                "finding pictures of one person", "transformers", "transformers"
            ) from None
        try:
            processor: Any = AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
            model: Any = AutoModelForObjectDetection.from_pretrained(name, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise InputError(f"detector {name!r} cannot be loaded: {error}") from None
        if not device:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.threshold = threshold
        self.processor = processor
        self.model = model.to(device).eval()
        classes = model.config.id2label.items()
        self.people = {i for i, label in classes if label.lower() == PERSON}
        if not self.people:
            raise InputError(
                f"detector {name!r} knows no class {PERSON!r}; pass one trained on COCO"
            )

    def count(self, paths: list[Path]) -> list[int]:
        """Return the number of people in each picture; 0 where it cannot be read."""
        images = [_open(path) for path in paths]
        readable = [image for image in images if image is not None]
        found = iter(self._count(readable) if readable else [])
        return [0 if image is None else next(found) for image in images]

    def _count(self, images: list[Any]) -> list[int]:
        import torch

        inputs = self.processor(images=images, return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            outputs = self.model(**inputs)
        results = self.processor.post_process_object_detection(
            outputs,
            threshold=self.threshold,
            target_sizes=[(image.height, image.width) for image in images],
        )
        counts = []
        for result in results:
            counts.append(sum(int(label) in self.people for label in result["labels"]))
        return counts


def _open(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError):
        # what Pillow raises for a file that is no image
        return None


def _load(cache: files.Where | None, detector: str, threshold: float) -> dict[str, int]:
    if cache is None or not Path(cache).is_file():
        return {}
    try:
        kept = json.loads(files.text(Path(cache)))
        made_by, counts = (kept["detector"], kept["threshold"]), kept["counts"]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{cache} is not a cache of person counts; delete it or pass another name"
        ) from None
    if made_by != (detector, threshold):
        raise InputError(
            f"{cache} was made by detector and threshold {made_by}, not {(detector, threshold)};"
            " pass another name"
        )
    return counts


def _save(
    cache: files.Where | None, detector: str, threshold: float, counts: dict[str, int]
) -> None:
    if cache is not None:
        document = {"detector": detector, "threshold": threshold, "counts": counts}
        write_atomically(Path(cache), json.dumps(document, indent=0).encode())
