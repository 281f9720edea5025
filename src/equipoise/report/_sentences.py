"""What the results say, in plain words, for page, terminal and card.

A sentence names each number by its place and form in the results: {path|form}.
"""

from __future__ import annotations

from typing import Any

from equipoise.report._numbers import step

Results = dict[str, Any]

FROM = {
    "labels": (
        "Groups are those of the labels given; they say what somebody perceived or recorded, not"
        " who a person is."
    ),
    "zero-shot": (
        "No labels were given: each image has the group that the model itself perceives (zero-shot,"
        " by the nearest prototype). The model's own errors are in every number that depends on"
        " groups, and the probe reads what the model perceived."
    ),
    "classifier": (
        "Groups are as an independent classifier perceives them. Its errors are in every number"
        " that depends on groups, and for pictures of nobody there is no right answer."
    ),
    "text": (
        "Without images, only texts are measured: what search or classification would do with them"
        " is not."
    ),
}


def headline(results: Results) -> str:
    """Return the verdict in one sentence."""
    name = results["subject"]["attribute"]["name"]
    found = results["verdict"]
    if found["measure"] == "lean":
        return f"Prompts that name no group still lean by {name}."
    if not found["leans"]:
        return f"Search results do not lean by {name} beyond what chance gives."
    best = found["beyond_chance"][found["best"]] if found["best"] else None
    if best is not None and found["lowered"] and best < found["beyond_chance"][0]:
        return f"Search results lean by {name}, and debiasing lowers it."
    return f"Search results lean by {name} more than chance gives."


def sentences(results: Results) -> list[str]:
    """Return the verdict: what leans, what helps, what it costs."""
    if not results["verdict"]["best"]:
        return [_worst(results)]
    return [
        _worst(results),
        _best(results),
        *_cost(results),
        *_explicit(results),
        *_probe(results),
    ]


def _worst(results: Results) -> str:
    i = results["verdict"]["worst"][0]
    entry = f"prompts.{i}"
    furthest = f"The furthest is “{{{entry}.prompt|s}}”:"
    if results["verdict"]["measure"] == "lean":
        lean = (
            f"it leans to {{{entry}.towards|s}} by {{verdict.said|%}} of what naming the group does"
        )
        return (
            f"{furthest} {lean} (a lean of {{{entry}.lean.0.value|4}}, against"
            " {yardstick.explicit_lean|4})."
        )
    beyond = (
        "{verdict.beyond_chance.0|n} of {subject.prompts|n} prompts lean more than the range of"
        " {settings.level|%} of rankings with shuffled labels. "
    )
    g = results["prompts"][i]["most"]
    shares = (
        f"{{{entry}.top.0.{g}.value|%}} of its first {{settings.places|n}} results are"
        f" {{subject.attribute.groups.{g}|s}}"
    )
    whole = "all images"
    if results["subject"]["images"]["unknown"]:
        whole = "all images of a known group"
    return f"{beyond}{furthest} {shares}, and {{chance.top.{g}.share|%}} of {whole} are."


def _best(results: Results) -> str:
    found = results["verdict"]
    row, best = found["row"], found["best"]
    before, after = f"summary.{row}.values.0.value", f"summary.{row}.values.{best}.value"
    values = results["summary"][row]["values"]
    sure = "" if found["lowered"] else ", a change that may be chance"
    if found["measure"] == "lean":
        what, ends, floor = "the mean lean", f"from {{{before}|4}} to {{{after}|4}}", ""
    else:
        what = "the most over-represented group"
        ends = (
            f"from {{{before}|e%}} above its share to {{{after}|e%}} above it, typically "
            f"(mean MaxSkew@{{settings.m|n}} {{{before}|3}} to {{{after}|3}})"
        )
        floor = "; shuffled labels would give {chance.mean_max_skew.value|e%}"
    if values[best]["value"] >= values[0]["value"]:
        return (
            f"No method lowered this: with {{methods.{best}.label|s}}, the best of them, {what}"
            f" goes {ends}{floor}."
        )
    return f"With {{methods.{best}.label|s}}, {what} goes {ends}{sure}{floor}."


def _cost(results: Results) -> list[str]:
    best = results["verdict"]["best"]
    cross = results["certificates"][best]["cross"]
    path = f"certificates.{best}.cross"
    if cross is not None:
        bound = ""
        if cross.get("bound") is not None:
            bound = f" (the guaranteed bound is {{{path}.bound|u3}})"
        return [
            f"What it cost: of the similarities between {{{path}.images|n}} images and"
            f" {{{path}.prompts|n}} prompts, none moved by more than"
            f" {{{path}.largest|u3}}{bound}."
        ]
    texts = results["certificates"][best]["texts"]
    if texts is None:
        return []
    return [
        "What it cost: the self-utility loss of a prompt is at most"
        f" {{certificates.{best}.texts.self_loss.max|u4}}."
    ]


def _explicit(results: Results) -> list[str]:
    best = results["verdict"]["best"]
    rows = {row["key"]: i for i, row in enumerate(results["summary"])}
    key, what = "explicit_top", "of their first {settings.places|n} results are of that group"
    if key not in rows:
        key, what = "explicit_nearest", "are still nearest to that group"
    now = f"summary.{rows[key]}.values.{best}.value|%"
    before = f"summary.{rows[key]}.values.0.value|%"
    gated = f"summary.{rows[f'{key}_gated']}.values.{best}.value|%"
    return [
        f"Prompts that name a group: {{{now}}} {what}, {{{before}}} before; with the gate,"
        f" {{{gated}}}."
    ]


def _probe(results: Results) -> list[str]:
    best = results["verdict"]["best"]
    row = next((i for i, row in enumerate(results["summary"]) if row["key"] == "probe"), None)
    if row is None:
        return []
    after, before = f"summary.{row}.values.{best}.value|3", f"summary.{row}.values.0.value|3"
    return [
        f"What stays: a classifier trained to tell the groups has an AUC of {{{after}}},"
        f" {{{before}}} before (one half is chance)."
    ]


def origin(results: Results) -> list[str]:
    """Return what is to be said of generated pictures; nothing of photographs."""
    subject = results["subject"]
    if subject["images"] is None or subject["images"].get("generated") is None:
        return []
    found = ["The people in these pictures do not exist: a small generator drew them."]
    if subject["groups_from"] == "classifier":
        right = []
        for name in subject["images"]["generated"]:
            if _is_about(name, subject["group_columns"]):
                path = f"subject.images.generated.{step(name)}"
                right.append(f"{{{path}.accuracy|1%}} of {{{path}.n|n}} ({name})")
        found.append(
            "Their groups are as an independent classifier perceives them, which on real"
            f" photographs agrees with annotators for {_listed(right)}."
        )
    found.append(
        "How they were drawn, sifted and checked: the page “The gallery” of the documentation,"
        " docs/gallery.md."
    )
    return found


def _is_about(figure: str, columns: list[str]) -> bool:
    """Return whether a classifier's figure, "race" or "race (4)", is about one of the columns."""
    return any(figure == column or figure.startswith(f"{column} ") for column in columns)


def _listed(parts: list[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *others, last = parts
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def caveats(results: Results) -> list[str]:
    """Return what the numbers do not say."""
    subject = results["subject"]
    found = [
        (
            "The attribute is what wordings say and a model perceives. It is not identity, and"
            " nobody was asked."
        ),
        FROM[subject["groups_from"]],
    ]
    if subject["images"] is not None:
        found += [
            (
                "Skew compares with the shares of this collection. A collection that is itself"
                " lopsided can show a skew of zero."
            ),
            (
                "Intervals say what another draw of as many images would give, for these prompts."
                " Other prompts may differ."
            ),
            (
                "MaxSkew is above zero for a random ranking; read it beside its floor. Lower skew"
                " is not the same as fair."
            ),
        ]
        if subject["images"].get("generated") is not None:
            found.append(
                "The pictures were drawn from text embeddings of equipoise-mini, so that this model"
                " finds in them what its own texts say. They demonstrate a report; they are no"
                " sample of any people."
            )
        if any(method["fitted_on_images"] for method in results["methods"]):
            found.append(
                "Methods fitted on images were measured on the same images; on others they do a"
                " little worse."
            )
    found += [
        (
            "At any finite kappa the attribute is shrunk, not erased: which of two groups is nearer"
            " stays the same."
        ),
        (
            "Equality is promised for the wordings of the prompt book only, and for no attribute"
            " but this one."
        ),
        (
            "Not measured: what a maker of images draws, other languages, other prompts, and what"
            " people do with the results."
        ),
    ]
    return found + list(results["notes"])
