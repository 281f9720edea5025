"""Made findings of an audit: numbers chosen by a test, and the verdict that follows from them."""

from __future__ import annotations

from typing import Any

from equipoise._audit.recommendation import recommend
from equipoise._audit.results import AuditDocument, AuditFindings, AuditRecord
from equipoise._audit.verdict import verdict

SURE, UNSURE = 0.02, 0.2  # half-widths of an interval


def ranged(value: float, half: float = SURE) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def values(numbers: list[float], half: float = SURE) -> list[dict[str, Any]]:
    """Return a value per method, ``none`` first, with changes of the same half-width."""
    found: list[dict[str, Any]] = [ranged(numbers[0])]
    for number in numbers[1:]:
        found.append(ranged(number) | {"change": ranged(number - numbers[0], half)})
    return found


def document(
    skews: list[list[float]],
    *,
    labels: tuple[str, ...] = ("closed-form",),
    half: float = SURE,
    chance: float = 0.14,
    mean_chance: float = 0.07,
    images: int = 2000,
    probe: float = 0.9,
    changed: int = 6,
    groups_from: str = "labels",
    shares: float = 0.8,
    towards: str = "male",
) -> AuditDocument:
    """Return the document of an audit whose prompts have these skews, by prompt and method.

    half: the half-width of all changes. chance, mean_chance: the largest skew of a random ranking,
    and of the mean with shuffled labels. shares: of women among the first results.
    """
    methods = ["none", *labels]
    means = [sum(column) / len(skews) for column in zip(*skews, strict=True)]
    prompts = []
    for i, row in enumerate(skews):
        top = [[ranged(1 - shares), ranged(shares)] for _ in methods]
        prompts.append(
            {
                "prompt": f"prompt {i}",
                "towards": towards,
                "lean": values([0.05] * len(methods)),
                "max_skew": values(row, half),
                "ndkl": values(row, half),
                "top": top,
                "most": 1,
                "changed": [0, *[changed] * len(labels)],
            }
        )
    about = {"n": images, "over": "images", "better": "lower"}
    summary = [
        about
        | {"key": "max_skew", "name": "MaxSkew@200, mean", "section": "retrieval"}
        | {"values": values(means, half)},
        about
        | {"key": "probe", "name": "AUC", "section": "probe"}
        | {"values": values([probe] * len(methods))},
    ]
    for key in ("explicit_top", "explicit_top_gated"):
        row = {
            "key": key,
            "name": key,
            "section": "explicit",
            "values": values([0.9] * len(methods)),
        }
        summary.append(about | row)
    cross = {"images": images, "prompts": len(skews), "mean": 0.02, "largest": 0.08, "spread": 0.03}
    nothing = {"space": None, "images": None, "texts": None, "search": None, "pages": None}
    found = AuditFindings.model_validate(
        {
            "created": "2026-01-01",
            "versions": {"equipoise": "0.1.0"},
            "subject": _subject(images, len(skews), groups_from),
            "settings": {
                "m": 200,
                "places": 20,
                "resamples": 1000,
                "permutations": 200,
                "level": 0.95,
                "interval": "centred",
                "seed": 0,
                "pairs": 1,
                "most_pairs": 1,
                "exact_dial": False,
            },
            "methods": [_method(label) for label in methods],
            "yardstick": {"explicit_lean": 0.2, "n": 10},
            "perceived": {"agreement": ranged(probe), "chance": 0.5, "n": images},
            "summary": summary,
            "chance": {
                "max_skew": {"value": 0.05, "low": 0.0, "high": chance},
                "ndkl": {"value": 0.05, "low": 0.0, "high": chance},
                "top": [{"group": "male", "share": 0.5}, {"group": "female", "share": 0.5}],
                "mean_max_skew": {"value": 0.05, "low": 0.03, "high": mean_chance},
                "leaning": {"value": 0.5, "low": 0.0, "high": 2.0},
            },
            "gaps": _gaps(means, half),
            "prompts": prompts,
            "certificates": [nothing | {"cross": cross} for _ in methods],
            "dials": [None for _ in methods],
            "gallery": None,
        }
    )
    judged = verdict(found)
    record = AuditRecord(
        command=None,
        organisation=None,
        auditor=None,
        purpose=None,
        model="",
        images=None,
        images_file=None,
        prompts="",
    )
    return AuditDocument(
        **found.model_dump(),
        verdict=judged,
        recommendation=recommend(found, judged),
        record=record,
    )


def _gaps(means: list[float], half: float) -> list[dict[str, Any]]:
    found = []
    for method in range(1, len(means)):
        for other in range(method + 1, len(means)):
            difference = ranged(means[method] - means[other], half)
            found.append({"method": method, "other": other, "difference": difference})
    return found


def _method(label: str) -> dict[str, Any]:
    return {
        "label": label,
        "method": label,
        "params": {},
        "changes": ["image", "text"],
        "kappa": None,
        "fingerprint": "",
        "fitted_on_images": False,
    }


def _subject(images: int, prompts: int, groups_from: str) -> dict[str, Any]:
    sizes = [{"group": group, "n": images // 2} for group in ("male", "female")]
    return {
        "model": {"id": "made", "revision": "", "fingerprint": "", "note": "", "dim": 8},
        "attribute": {"name": "gender", "groups": ["male", "female"]},
        "groups_from": groups_from,
        "group_columns": ["gender"],
        "images": {
            "name": "made",
            "given": images,
            "n": images,
            "known": images,
            "groups": sizes,
            "unknown": 0,
            "dropped": {},
            "generated": None,
        },
        "prompts": prompts,
        "explicit": 2,
        "book": {"hash": "", "prompts": 10, "writers": []},
        "space": {"rank": 1, "dim": 8, "fingerprint": ""},
    }
