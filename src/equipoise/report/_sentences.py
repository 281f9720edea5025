"""What the results say, in plain words, for page, terminal and card.

A sentence names each number by its place and form in the results: {path|form}.
"""

from __future__ import annotations

from equipoise.report._headline import Results, headline_with_places
from equipoise.report._number_format import fill, step

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


def headline(results: Results) -> str:
    """Return the verdict in one sentence."""
    return fill(headline_with_places(results), results)


def sentences(results: Results) -> list[str]:
    """Return the verdict: what leans, what each method did, what it costs, what to do next."""
    found = [*_before(results), *_sight(results), *_disagreements(results)]
    for place in range(len(results["verdict"]["methods"])):
        found.append(_method(results, place) + _cost(results, place))
    if results["verdict"]["best"]:
        found += [*_search(results), *_explicit(results), *_probe(results)]
    if results["verdict"]["methods"]:
        found.append(_next(results))
    return found + _small(results)


# --- Before -----------------------------------------------------------------------------


def _before(results: Results) -> list[str]:
    """Return how many prompts lean, the furthest of them, and what would have been seen."""
    if results["verdict"]["measure"] == "lean":
        return [_leaning_texts(results)]
    count = len(results["verdict"]["leaning"])
    verb = "leans" if count == 1 else "lean"
    found = [
        f"{{verdict.leaning|c}} of {{subject.prompts|n}} prompts {verb} more than"
        " {settings.level|%} of random rankings do; with shuffled labels, up to"
        " {chance.leaning.high|n} would. " + _furthest(results)
    ]
    if results["verdict"]["state"] != "leans":
        found.append(_power(results))
    return found


def _leaning_texts(results: Results) -> str:
    entry = f"prompts.{results['verdict']['worst'][0]}"
    return (
        f"The furthest is “{{{entry}.prompt|s}}”: it leans to {{{entry}.towards|s}} by"
        f" {{verdict.said|%}} of what naming the group does (a lean of {{{entry}.lean.0.value|4}},"
        " against {yardstick.explicit_lean|4})."
    )


def _furthest(results: Results) -> str:
    i = results["verdict"]["worst"][0]
    entry, g = f"prompts.{i}", results["prompts"][i]["most"]
    whole = "all images"
    if results["subject"]["images"]["unknown"]:
        whole = "all images of a known group"
    return (
        f"The furthest is “{{{entry}.prompt|s}}”: {{{entry}.top.0.{g}.value|%}} of its first"
        f" {{settings.places|n}} results are {{subject.attribute.groups.{g}|s}}, and"
        f" {{chance.top.{g}.share|%}} of {whole} are."
    )


def _power(results: Results) -> str:
    """Return what this many images can show, and how many would show less."""
    power = results["verdict"]["power"]
    said = (
        "What is not seen may still be there: {subject.images.known|n} images show, four times in"
        " five, a mean lean where the most over-represented group is {verdict.power.smallest|e%}"
        " above its share, or more."
    )
    if power["images"] is None:
        return said
    return (
        f"{said} About {{verdict.power.images|n}} images, and a look at the first"
        " {verdict.power.places|n} results, would show {verdict.power.wanted|e%}."
    )


def _sight(results: Results) -> list[str]:
    """Return whether the model can tell the groups here."""
    sight = results["verdict"]["sight"]
    if results["subject"]["images"] is None:
        return []
    if sight["tells"] == "not measured":
        return [
            "Whether the model can tell the groups here was not measured, because the model itself"
            " named them. Methods are judged by the same perception that some of them go by."
            " Labels would show both."
        ]
    does = {"yes": "tells", "hardly": "hardly tells", "no": "cannot tell"}[sight["tells"]]
    said = f"The model {does} the groups apart in these images"
    if sight["probe"] is not None:
        probe = f"summary.{sight['probe']}.values.0"
        said += (
            f": a classifier trained on them has an AUC of {{{probe}.value|3}}"
            f" [{{{probe}.low|3}}, {{{probe}.high|3}}], where one half is guessing"
        )
    if results["perceived"] is not None:
        said += (
            "; the prompts alone name the recorded group of {perceived.agreement.value|%} of"
            " {perceived.n|n} images, where {perceived.chance|%} is guessing"
        )
    return [said + "."]


def _disagreements(results: Results) -> list[str]:
    """Return the prompts whose wording and whose results lean to different groups, explained."""
    disagree = results["verdict"]["disagree"]
    if not disagree:
        return []
    named = []
    for one in disagree[:NAMED_FEW]:
        path = f"prompts.{one['prompt']}"
        group = f"{{subject.attribute.groups.{one['most']}|s}}"
        named.append(
            f"“{{{path}.prompt|s}}” is worded nearer to {{{path}.towards|s}}, and"
            f" {{{path}.top.0.{one['most']}.value|%}} of its first {{settings.places|n}} results"
            f" are {group}"
        )
    return [
        f"Wording and results may disagree: {'; '.join(named)}. Lean compares a wording with the"
        " wordings that name a group; results also depend on which images there are and what else"
        " the prompt asks for. Go by the results."
    ]


# --- After ------------------------------------------------------------------------------


def _method(results: Results, place: int) -> str:
    """Return what one method did: its outcome, and what it made of the prompts."""
    one = results["verdict"]["methods"][place]
    method, row = one["method"], results["verdict"]["row"]
    form = "4" if results["verdict"]["measure"] == "lean" else "3"
    before, after = f"summary.{row}.values.0.value", f"summary.{row}.values.{method}"
    label = f"{{methods.{method}.label|s}}"
    what, plainly, floor = "mean lean", "", ""
    if form == "3":
        what = "mean MaxSkew@{settings.m|n}"
        plainly = (
            f"the most over-represented group goes from {{{before}|e%}} above its share to"
            f" {{{after}.value|e%}} above it, typically; "
        )
        floor = "; shuffled labels would give {chance.mean_max_skew.value|e%}"
    ends = f"{plainly}{what} {{{before}|{form}}} to {{{after}.value|{form}}}"
    if one["change"]["low"] is not None:
        change = f"{after}.change"
        ends += (
            f", a change of {{{change}.value|+{form}}} [{{{change}.low|+{form}}},"
            f" {{{change}.high|+{form}}}]"
        )
    ends += floor
    said = OUTCOMES[one["outcome"]].format(label=label, ends=ends)
    return f"{said} {_prompts(results, place)}"


def _prompts(results: Results, place: int) -> str:
    """Return how many prompts lean still, and which were made worse."""
    one, path = results["verdict"]["methods"][place], f"verdict.methods.{place}"
    count = "verdict.leaning|c"
    still = (
        f"{{{path}.leaning|c}} of {{subject.prompts|n}} prompts lean with it, {{{count}}} before;"
    )
    if not one["worse"]:
        return f"{still} it makes none worse beyond its interval."
    verb = "is" if len(one["worse"]) == 1 else "are"
    measure = results["verdict"]["measure"]
    form = "4" if measure == "lean" else "3"
    named = []
    for prompt in one["worse"][:NAMED]:
        entry = f"prompts.{prompt}"
        values = f"{entry}.{measure}"
        named.append(
            f"“{{{entry}.prompt|s}}” ({{{values}.0.value|{form}}} to"
            f" {{{values}.{one['method']}.value|{form}}})"
        )
    if len(one["worse"]) > len(named):
        named.append("others, which the table of prompts shows")
    return f"{still} {{{path}.worse|c}} {verb} made worse beyond the interval: {_listed(named)}."


def _cost(results: Results, place: int) -> str:
    """Return what a method cost: results that change, recall and accuracy, then similarities."""
    cost = results["verdict"]["methods"][place]["cost"]
    method = results["verdict"]["methods"][place]["method"]
    path, said = f"verdict.methods.{place}.cost", ""
    if cost["changed"] is not None:
        said = (
            f" What it cost: {{{path}.changed|1}} of the first {{{path}.places|n}} results of a"
            f" prompt are new on average, and {{{path}.changed_most|n}} for"
            f" “{{prompts.{cost['changed_prompt']}.prompt|s}}”."
        )
    for row in [*cost["recall"], *cost["accuracy"]]:
        values = f"summary.{row}.values"
        said += (
            f" {{summary.{row}.name|s}} goes from {{{values}.0.value|3}} to"
            f" {{{values}.{method}.value|3}}."
        )
    cross = results["certificates"][method]["cross"]
    if cross is not None:
        return said + _similarities(method, cross, path)
    texts = results["certificates"][method]["texts"]
    if texts is None:
        return said
    return (
        f"{said} What it cost: the self-utility loss of a prompt is at most"
        f" {{certificates.{method}.texts.self_loss.max|u4}}."
    )


def _similarities(method: int, cross: Results, cost: str) -> str:
    """Return how far similarities moved, on the scale of their own spread."""
    path = f"certificates.{method}.cross"
    bound = ""
    if cross.get("bound") is not None:
        bound = f" (the guaranteed bound is {{{path}.bound|u3}})"
    return (
        f" A similarity moves by {{{path}.mean|3}} on average, {{{cost}.moved|1}} times their"
        f" spread within a prompt ({{{path}.spread|3}}), and by {{{path}.largest|u3}} at most"
        f"{bound}."
    )


def _search(results: Results) -> list[str]:
    """Return what the certificates of balanced pages come to."""
    best = results["verdict"]["best"]
    if results["certificates"][best]["search"] is None:
        return []
    path = f"certificates.{best}.search"
    return [
        f"Certified: the first {{{path}.k|n}} results of {{{path}.exact|n}} of {{{path}.n|n}}"
        " prompts are the best that any page of such shares can have. They keep"
        f" {{{path}.kept.mean|%}} of the total score of the page as it was, on average, and no less"
        f" than {{{path}.kept.least|%}}."
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
        f"Prompts that name a group, with {{methods.{best}.label|s}}: {{{now}}} {what},"
        f" {{{before}}} before; with the gate, {{{gated}}}."
    ]


def _probe(results: Results) -> list[str]:
    best = results["verdict"]["best"]
    row = results["verdict"]["sight"]["probe"]
    if row is None:
        return []
    after, before = f"summary.{row}.values.{best}.value|3", f"summary.{row}.values.0.value|3"
    return [
        f"What stays, with {{methods.{best}.label|s}}: a classifier trained to tell the groups has"
        f" an AUC of {{{after}}}, {{{before}}} before (one half is chance)."
    ]


def _next(results: Results) -> str:
    """Return the recommendation."""
    method = results["recommendation"]["method"]
    why = "{recommendation.why|s}"
    if method is None:
        return f"Recommended: nothing. {why}"
    file = ""
    if results["recommendation"]["file"] is not None:
        file = " Its file is {recommendation.file|s}."
    return f"Recommended: {{methods.{method}.label|s}}. {why}{file}"


def _small(results: Results) -> list[str]:
    """Return which numbers rest on too few images, and on how many."""
    cells: dict[str, str] = {}
    names = []
    for i, row in enumerate(results["summary"]):
        for j, cell in enumerate(row["small"]):
            cells.setdefault(cell, f"{{summary.{i}.small.{j}|s}}")
        if row["small"]:
            names.append(f"{{summary.{i}.name|s}}")
    if not cells:
        return []
    return [
        f"Read with care what rests on fewer than twenty images ({'; '.join(cells.values())}):"
        f" {_listed(names)}."
    ]


# --- Where it comes from, and what it does not say --------------------------------------


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
