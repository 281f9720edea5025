"""What the results say, in plain words, for page, terminal and card.

A sentence names each number by its place and form in the document: {path|form}.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise._audit.results import AuditDocument, MethodVerdict, SummaryMetric
from equipoise.report._headline import headline_with_places
from equipoise.report._number_format import NumberPlace, fill

AT = NumberPlace()

# prompts that a sentence names at most; a table has them all
NAMED, NAMED_FEW = 10, 3
OUTCOMES = {
    "lowered": "{label} lowered the lean: {ends}.",
    "raised": "{label} raised the lean: {ends}.",
    "no change seen": "No change was seen with {label}: {ends}.",
    "too few images to say": "There is too little to say what {label} does: {ends}.",
}

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


def headline(results: AuditDocument | Mapping[str, object]) -> str:
    """Return the verdict in one sentence. results: a document, or what results.json holds."""
    document = AuditDocument.model_validate(results)
    return fill(headline_with_places(document), document)


def sentences(document: AuditDocument) -> list[str]:
    """Return the verdict: what leans, what each method did, what it costs, what to do next."""
    verdict = document.verdict
    found = [*_before(document), *_sight(document), *_disagreements(document)]
    for place, one in enumerate(verdict.methods):
        found.append(_method(document, one, place) + _cost(document, one, place))
    if verdict.best:
        found += [*_search(document), *_explicit(document), *_probe(document)]
    if verdict.methods:
        found.append(_next(document))
    return found + _small(document.summary)


# --- Before -----------------------------------------------------------------------------


def _before(document: AuditDocument) -> list[str]:
    """Return how many prompts lean, the furthest of them, and what would have been seen."""
    verdict = document.verdict
    if verdict.measure == "lean":
        return [_leaning_texts(verdict.worst[0])]
    verb = "leans" if len(verdict.leaning) == 1 else "lean"
    found = [
        f"{AT.verdict.leaning:c} of {AT.subject.prompts:n} prompts {verb} more than"
        f" {AT.settings.level:%} of random rankings do; with shuffled labels, up to"
        f" {AT.chance.leaning.high:n} would. " + _furthest(document)
    ]
    if verdict.state != "leans":
        found.append(_power(document))
    return found


def _leaning_texts(prompt: int) -> str:
    entry = AT.prompts[prompt]
    return (
        f"The furthest is “{entry.prompt:s}”: it leans to {entry.towards:s} by"
        f" {AT.verdict.said:%} of what naming the group does (a lean of {entry.lean[0].value:4},"
        f" against {AT.yardstick.explicit_lean:4})."
    )


def _furthest(document: AuditDocument) -> str:
    prompt, images = document.verdict.worst[0], document.subject.images
    entry, group = AT.prompts[prompt], document.prompts[prompt].most
    whole = "all images"
    if images is not None and images.unknown:
        whole = "all images of a known group"
    return (
        f"The furthest is “{entry.prompt:s}”: {entry.top[0][group].value:%} of its first"
        f" {AT.settings.places:n} results are {AT.subject.attribute.groups[group]:s}, and"
        f" {AT.chance.top[group].share:%} of {whole} are."
    )


def _power(document: AuditDocument) -> str:
    """Return what this many images can show, and how many would show less."""
    power = AT.verdict.power
    said = (
        f"What is not seen may still be there: {AT.subject.images.known:n} images show, four times"
        f" in five, a mean lean where the most over-represented group is {power.smallest:e%}"
        " above its share, or more."
    )
    if document.verdict.power.images is None:
        return said
    return (
        f"{said} About {power.images:n} images, and a look at the first"
        f" {power.places:n} results, would show {power.wanted:e%}."
    )


def _sight(document: AuditDocument) -> list[str]:
    """Return whether the model can tell the groups here."""
    sight = document.verdict.sight
    if document.subject.images is None:
        return []
    if sight.tells == "not measured":
        return [
            "Whether the model can tell the groups here was not measured, because the model itself"
            " named them. Methods are judged by the same perception that some of them go by."
            " Labels would show both."
        ]
    does = {"yes": "tells", "hardly": "hardly tells", "no": "cannot tell"}[sight.tells]
    said = f"The model {does} the groups apart in these images"
    if sight.probe is not None:
        auc = AT.summary[sight.probe].values[0]
        said += (
            f": a classifier trained on them has an AUC of {auc.value:3}"
            f" [{auc.low:3}, {auc.high:3}], where one half is guessing"
        )
    if document.perceived is not None:
        seen = AT.perceived
        said += (
            f"; the prompts alone name the recorded group of {seen.agreement.value:%} of"
            f" {seen.n:n} images, where {seen.chance:%} is guessing"
        )
    return [said + "."]


def _disagreements(document: AuditDocument) -> list[str]:
    """Return the prompts whose wording and whose results lean to different groups, explained."""
    disagree = document.verdict.disagree
    if not disagree:
        return []
    named = []
    for one in disagree[:NAMED_FEW]:
        entry, group = AT.prompts[one.prompt], AT.subject.attribute.groups[one.most]
        named.append(
            f"“{entry.prompt:s}” is worded nearer to {entry.towards:s}, and"
            f" {entry.top[0][one.most].value:%} of its first {AT.settings.places:n} results are"
            f" {group:s}"
        )
    return [
        f"Wording and results may disagree: {'; '.join(named)}. Lean compares a wording with the"
        " wordings that name a group; results also depend on which images there are and what else"
        " the prompt asks for. Go by the results."
    ]


# --- After ------------------------------------------------------------------------------


def _method(document: AuditDocument, one: MethodVerdict, place: int) -> str:
    """Return what one method did: its outcome, and what it made of the prompts."""
    values = AT.summary[document.verdict.row].values
    before, after = values[0].value, values[one.method]
    label = f"{AT.methods[one.method].label:s}"
    if document.verdict.measure == "lean":
        form, what, plainly, floor = "4", "mean lean", "", ""
    else:
        form, what = "3", f"mean MaxSkew@{AT.settings.m:n}"
        plainly = (
            f"the most over-represented group goes from {before:e%} above its share to"
            f" {after.value:e%} above it, typically; "
        )
        floor = f"; shuffled labels would give {AT.chance.mean_max_skew.value:e%}"
    ends = f"{plainly}{what} {before:{form}} to {after.value:{form}}"
    if one.change.low is not None:
        change = after.change
        ends += (
            f", a change of {change.value:+{form}} [{change.low:+{form}}, {change.high:+{form}}]"
        )
    said = OUTCOMES[one.outcome].format(label=label, ends=ends + floor)
    return f"{said} {_prompts(document, one, place)}"


def _prompts(document: AuditDocument, one: MethodVerdict, place: int) -> str:
    """Return how many prompts lean still, and which were made worse."""
    at = AT.verdict.methods[place]
    still = (
        f"{at.leaning:c} of {AT.subject.prompts:n} prompts lean with it,"
        f" {AT.verdict.leaning:c} before;"
    )
    if not one.worse:
        return f"{still} it makes none worse beyond its interval."
    verb = "is" if len(one.worse) == 1 else "are"
    measure = document.verdict.measure
    form = "4" if measure == "lean" else "3"
    named = []
    for prompt in one.worse[:NAMED]:
        entry = AT.prompts[prompt]
        before, after = entry[measure][0].value, entry[measure][one.method].value
        named.append(f"“{entry.prompt:s}” ({before:{form}} to {after:{form}})")
    if len(one.worse) > len(named):
        named.append("others, which the table of prompts shows")
    return f"{still} {at.worse:c} {verb} made worse beyond the interval: {_listed(named)}."


def _cost(document: AuditDocument, one: MethodVerdict, place: int) -> str:
    """Return what a method cost: results that change, recall and accuracy, then similarities."""
    at, said = AT.verdict.methods[place].cost, ""
    if one.cost.changed is not None:
        prompt = AT.prompts[one.cost.changed_prompt].prompt
        said = (
            f" What it cost: {at.changed:1} of the first {at.places:n} results of a prompt are new"
            f" on average, and {at.changed_most:n} for “{prompt:s}”."
        )
    for row in [*one.cost.recall, *one.cost.accuracy]:
        metric = AT.summary[row]
        said += (
            f" {metric.name:s} goes from {metric.values[0].value:3} to"
            f" {metric.values[one.method].value:3}."
        )
    certificate = document.certificates[one.method]
    if certificate.cross is not None:
        return said + _similarities(one.method, at.moved, certificate.cross.bound is not None)
    if certificate.texts is None:
        return said
    most = AT.certificates[one.method].texts.self_loss.max
    return f"{said} What it cost: the self-utility loss of a prompt is at most {most:u4}."


def _similarities(method: int, moved: NumberPlace, bounded: bool) -> str:
    """Return how far similarities moved, on the scale of their own spread."""
    cross = AT.certificates[method].cross
    bound = f" (the guaranteed bound is {cross.bound:u3})" if bounded else ""
    return (
        f" A similarity moves by {cross.mean:3} on average, {moved:1} times their spread within a"
        f" prompt ({cross.spread:3}), and by {cross.largest:u3} at most{bound}."
    )


def _search(document: AuditDocument) -> list[str]:
    """Return what the certificates of balanced pages come to."""
    best = document.verdict.best
    if document.certificates[best].search is None:
        return []
    search = AT.certificates[best].search
    return [
        f"Certified: the first {search.k:n} results of {search.exact:n} of {search.n:n} prompts are"
        " the best that any page of such shares can have. They keep"
        f" {search.kept.mean:%} of the total score of the page as it was, on average, and no less"
        f" than {search.kept.least:%}."
    ]


def _explicit(document: AuditDocument) -> list[str]:
    best = document.verdict.best
    rows = {row.key: i for i, row in enumerate(document.summary)}
    key, what = "explicit_top", f"of their first {AT.settings.places:n} results are of that group"
    if key not in rows:
        key, what = "explicit_nearest", "are still nearest to that group"
    values = AT.summary[rows[key]].values
    gated = AT.summary[rows[f"{key}_gated"]].values[best].value
    return [
        f"Prompts that name a group, with {AT.methods[best].label:s}: {values[best].value:%}"
        f" {what}, {values[0].value:%} before; with the gate, {gated:%}."
    ]


def _probe(document: AuditDocument) -> list[str]:
    best = document.verdict.best
    row = document.verdict.sight.probe
    if row is None:
        return []
    auc = AT.summary[row].values
    return [
        f"What stays, with {AT.methods[best].label:s}: a classifier trained to tell the groups has"
        f" an AUC of {auc[best].value:3}, {auc[0].value:3} before (one half is chance)."
    ]


def _next(document: AuditDocument) -> str:
    """Return the recommendation."""
    found, at = document.recommendation, AT.recommendation
    if found.method is None:
        return f"Recommended: nothing. {at.why:s}"
    file = "" if found.file is None else f" Its file is {at.file:s}."
    return f"Recommended: {AT.methods[found.method].label:s}. {at.why:s}{file}"


def _small(summary: list[SummaryMetric]) -> list[str]:
    """Return which numbers rest on too few images, and on how many."""
    cells: dict[str, str] = {}
    names = []
    for i, row in enumerate(summary):
        for j, cell in enumerate(row.small):
            cells.setdefault(cell, f"{AT.summary[i].small[j]:s}")
        if row.small:
            names.append(f"{AT.summary[i].name:s}")
    if not cells:
        return []
    return [
        f"Read with care what rests on fewer than twenty images ({'; '.join(cells.values())}):"
        f" {_listed(names)}."
    ]


# --- Where it comes from, and what it does not say --------------------------------------


def origin(document: AuditDocument) -> list[str]:
    """Return what is to be said of generated pictures; nothing of photographs."""
    subject = document.subject
    if subject.images is None or subject.images.generated is None:
        return []
    found = ["The people in these pictures do not exist: a small generator drew them."]
    if subject.groups_from == "classifier":
        right = []
        for name in subject.images.generated:
            if _is_about(name, subject.group_columns):
                figure = AT.subject.images.generated[name]
                right.append(f"{figure.accuracy:1%} of {figure.n:n} ({name})")
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


def caveats(document: AuditDocument) -> list[str]:
    """Return what the numbers do not say."""
    subject = document.subject
    found = [
        (
            "The attribute is what wordings say and a model perceives. It is not identity, and"
            " nobody was asked."
        ),
        FROM[subject.groups_from],
    ]
    if subject.images is not None:
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
        if subject.images.generated is not None:
            found.append(
                "The pictures were drawn from text embeddings of equipoise-mini, so that this model"
                " finds in them what its own texts say. They demonstrate a report; they are no"
                " sample of any people."
            )
        if any(method.fitted_on_images for method in document.methods):
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
    return [*found, *document.notes]
