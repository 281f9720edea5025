"""Balanced search on real photographs and real embeddings: writes docs/measurements/balanced_*.json,
and docs/results.md.

Run from the repository root: ``python -m scripts.balanced_results [DATA]``, the folder that holds
embeddings/ and people/. A set that has its file is not measured again: delete the file to do so.
Embeddings of photographs are kept in build/balanced.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scripts import people
from scripts import retrieval_by_gender as clip

import equipoise as eq
from equipoise._audit import intervals
from equipoise._audit.results import MethodValue
from equipoise._bench import machine
from equipoise._rows import unit
from equipoise.evaluation._retrieval import rank, rank_deep
from equipoise.methods import FitContext, Operator
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.methods._specs import parse
from equipoise.metrics._intervals import POSITIVE, SHARE
from equipoise.metrics._resample_lists import multiplicities
from equipoise.prompts._book_choice import book_for

WORK, MEASUREMENTS = Path("build/balanced"), Path("docs/measurements")
METHODS = [
    "none",
    "closed-form",
    "adapted:kappa=inf",
    "interleave",
    "balanced:membership=text|index|both",
]
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
PAGES = (20, 100, 500)
RESAMPLES, LEVEL, SEED = 300, 0.95, 0
RARE = 0.02  # the share of the rare group
LEAST = 10  # images that show an object, for its query to have a place in mAP
AGES = {
    "a photo of a baby": ["0-2"],
    "a photo of a child": ["3-9"],
    "a photo of a teenager": ["10-19"],
    "a photo of an elderly person": ["60-69", "more than 70"],
}
WORN = {
    "a Glasses": "Eyeglasses",
    "a Hat": "Wearing_Hat",
    "a Tie": "Wearing_Necktie",
    "a Necklace": "Wearing_Necklace",
    "a Earrings": "Wearing_Earrings",
}


@dataclass(frozen=True, eq=False)
class Collection:
    """Images with their groups, queries that are searched for, and queries whose right images are
    known.

    k: the page. relevant: query -> which images (n,) show it. rare: a group to tell the share of.
    """

    title: str
    rows: np.ndarray
    groups: np.ndarray
    attribute: eq.Attribute
    encoder: Any
    book: eq.PromptBook
    prompts: list[str]
    k: int
    relevant: dict[str, np.ndarray]
    rare: str = ""

    def operators(self, methods: list[str] = METHODS) -> dict[str, Operator]:
        context = FitContext(
            self.attribute, encoder=self.encoder, book=self.book, images=self.rows, seed=SEED
        )
        return {spec.label: spec.fit(context, "shared", page=self.k) for spec in parse(methods)}


# --- The collections


def of_clip(name: str, data: Path) -> Collection:
    """CelebA or Flickr8k with CLIP ViT-B/32, by gender: BALANCED.md's check values."""
    folder = data / "embeddings"
    vectors, prompts = clip.texts(folder)
    rows, table = clip.images(folder, name)
    rows = unit(rows)  # they were rounded to float16
    with np.load(folder / clip.FILES[name], allow_pickle=False) as file:
        if name == "celeba":
            names = file["attr_names"].tolist()
            relevant = {
                query: file["attrs"][:, names.index(worn)] == 1 for query, worn in WORN.items()
            }
        else:
            kept = np.isin(file["caption_gender"], ["male", "female"])
            relevant = mentioned(file["caption0"][kept].tolist(), prompts)
    return Collection(
        f"{clip.NAMES[name]}, CLIP ViT-B/32, by gender",
        rows,
        table["gender"].to_numpy(str),
        eq.Attribute("gender", ("male", "female")),
        vectors,
        eq.PromptBook.of({"a Person": clip.WORDS}),
        prompts,
        clip.DEPTHS[name],
        relevant,
    )


def mentioned(captions: list[str], prompts: list[str]) -> dict[str, np.ndarray]:
    """Objects that enough captions name, each with the images whose caption does."""
    found = {}
    for prompt in dict.fromkeys(prompts):
        name = prompt.removeprefix("a ").lower()
        there = np.array(
            [bool(re.search(rf"\b{re.escape(name)}s?\b", text.lower())) for text in captions]
        )
        if name != "person" and there.sum() >= LEAST:
            found[prompt] = there
    return found


def of_faces(columns: tuple[str, ...], data: Path, thin: bool = False) -> Collection:
    """FairFace's validation part with mini, by gender, race or both; ``thin``: with few women."""
    encoder = eq.load_encoder("mini")
    rows, table = embedded(data, "fairface_val", encoder)
    if thin:
        kept = thinned(table["gender"].to_numpy(str))
        rows, table = rows[kept], table.iloc[kept]
    attribute = eq.Attribute.load(columns[0])
    groups = table[columns[0]].to_numpy(str)
    if len(columns) > 1:
        attribute = attribute & eq.Attribute.load(columns[1])
        pairs = zip(*(table[column] for column in columns), strict=True)
        groups = np.array([attribute.group(pair) for pair in pairs])
    prompts = list(eq.PromptBook.curated("occupations-gender").prompts)
    title = f"FairFace's validation part ({len(rows):,} photographs), mini, by {attribute.name}"
    if thin:
        title += f": {RARE:.0%} women"
    return Collection(
        title,
        rows,
        groups,
        attribute,
        encoder,
        book_for(prompts, attribute, None),
        prompts,
        500,
        {query: np.isin(table["age"].to_numpy(str), ages) for query, ages in AGES.items()},
        "female" if thin else "",
    )


def thinned(gender: np.ndarray) -> np.ndarray:
    """All men, and as many women as make the rare share, drawn by lot."""
    women = np.flatnonzero(gender == "female")
    count = round(RARE / (1 - RARE) * (len(gender) - len(women)))
    few = np.random.default_rng(SEED).choice(women, count, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(gender != "female"), few]))


def embedded(data: Path, name: str, encoder: Any) -> tuple[np.ndarray, pd.DataFrame]:
    """The embeddings of photographs in a parquet file, kept for the next time, and their table."""
    table = pd.read_parquet(data / "people" / f"{name}.parquet")
    if name == "flickr8k":
        table = table.query("split == 'test'").reset_index(drop=True)
    path = WORK / f"{name}.npy"
    if not path.is_file():
        parts = []
        photographs = table["image"].tolist()
        for start in range(0, len(table), 250):
            pictures = [Image.open(io.BytesIO(one)) for one in photographs[start : start + 250]]
            parts.append(np.asarray(encoder.encode_images(pictures)))
            print(f"{name}: {start + len(pictures)} of {len(table)} embedded", flush=True)
        WORK.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(parts))
    return np.load(path), table.drop(columns="image")


SETS: dict[str, Callable[[Path], Collection]] = {
    "celeba": lambda data: of_clip("celeba", data),
    "flickr8k": lambda data: of_clip("flickr8k", data),
    "faces_gender": lambda data: of_faces(("gender",), data),
    "faces_race": lambda data: of_faces(("race",), data),
    "faces_both": lambda data: of_faces(("gender", "race"), data),
    "faces_rare": lambda data: of_faces(("gender",), data, thin=True),
}


# --- What is measured


def measured(given: Collection) -> dict[str, Any]:
    """Skew at three depths, score kept, and mAP, of every method, on the same resamples."""
    operators = given.operators()
    known = np.ones(len(given.rows), bool)
    texts = encoded(given.encoder, given.prompts)
    depths = [given.k // 5, given.k, 2 * given.k]
    lists = {
        label: rank_deep(operator, given.rows, texts, given.prompts, known, depths[-1])
        for label, operator in operators.items()
    }
    first = lists["none"]
    scores = texts @ given.rows.T
    kept = [
        page_score(scores, top, given.k) / page_score(scores, first, given.k)
        for top in lists.values()
    ]
    document = {
        "title": given.title,
        "groups": shares(given.groups),
        "queries": len(given.prompts),
        "k": given.k,
        "methods": list(lists),
        "skew": {m: skew(lists, given.groups, m) for m in depths},
        "kept": kept,
        "map": average_precision(given, operators),
        "right_queries": {query: int(there.sum()) for query, there in given.relevant.items()},
        "resamples": RESAMPLES,
        "machine": machine.describe(),
    }
    if given.rare:
        document["rare"] = {"group": given.rare, "shares": rare_shares(lists, given)}
    return document


def encoded(encoder: Any, prompts: list[str]) -> np.ndarray:
    unique = list(dict.fromkeys(prompts))
    rows = dict(zip(unique, np.asarray(encoder.encode_text(unique)), strict=True))
    return np.stack([rows[prompt] for prompt in prompts])


def page_score(scores: np.ndarray, lists: np.ndarray, k: int) -> float:
    return float(np.take_along_axis(scores, lists[:, :k], axis=1).sum())


def shares(groups: np.ndarray) -> dict[str, float]:
    names, counts = np.unique(groups, return_counts=True)
    return dict(zip(names.tolist(), (counts / len(groups)).tolist(), strict=True))


def skew(lists: dict[str, np.ndarray], groups: np.ndarray, m: int) -> dict[str, Any]:
    """MaxSkew@m of each method, and the share of what ``none`` has above its floor that it removes."""
    found = eq.metrics.bootstrap_retrieval(
        sensitive_features=groups,
        top=lists,
        metrics={"skew": lambda ranking: ranking.max_skew(m)},
        resamples=RESAMPLES,
        seed=SEED,
    )
    points = np.array([found.values[label, "skew"] for label in lists])
    drawn = np.array([found.replicates[label, "skew"] for label in lists])
    floor = eq.metrics.max_skew_floor(sensitive_features=groups, m=m)
    centred = drawn + (points - drawn.mean(axis=1))[:, None]
    removed = (points[0] - points) / (points[0] - floor)
    all_removed = (centred[:1] - centred) / (centred[:1] - floor)
    return {
        "floor": floor,
        "values": plain(intervals.values(points, drawn, LEVEL, POSITIVE)),
        "removed": plain(intervals.values(removed, all_removed, LEVEL)),
    }


def plain(values: list[MethodValue]) -> list[dict[str, Any]]:
    """The values of all methods in JSON's own types."""
    return [one.to_plain() for one in values]


def average_precision(
    given: Collection, operators: Mapping[str, Operator]
) -> dict[str, list[dict[str, Any]]]:
    """mAP of the queries whose right images are known: among all images, and inside each group."""
    queries = list(given.relevant)
    texts = encoded(given.encoder, queries)
    rng = np.random.default_rng(SEED)
    size = len(given.rows)
    times = np.concatenate([np.ones((1, size)), multiplicities(rng, size, RESAMPLES)])
    names = np.unique(given.groups)
    overall, inside = [], []
    for operator in operators.values():
        lists = rank(operator, given.rows, texts, queries, size)
        by_query = []
        by_group = []
        for query, order in zip(queries, lists, strict=True):
            right = given.relevant[query][order]
            by_query.append(precision(right, times[:, order]))
            for name in names:
                there = given.groups[order] == name
                by_group.append(precision(right[there], times[:, order[there]]))
        overall.append(np.mean(by_query, axis=0))
        inside.append(np.nanmean(by_group, axis=0))
    return {
        name: plain(intervals.values(part[:, 0], part[:, 1:], LEVEL, SHARE))
        for name, part in (("overall", np.array(overall)), ("inside", np.array(inside)))
    }


def precision(right: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Average precision (resamples,) of a ranking; NaN where nothing is right."""
    hits = times * right
    at = np.cumsum(hits, axis=1) / np.maximum(np.cumsum(times, axis=1), 1)
    total = hits.sum(axis=1)
    return (hits * at).sum(axis=1) / np.where(total > 0, total, np.nan)


def rare_shares(lists: dict[str, np.ndarray], given: Collection) -> list[dict[str, Any]]:
    """The rare group's share of the page, as a mean over queries."""
    rng = np.random.default_rng(SEED)
    times = np.concatenate(
        [np.ones((1, len(given.rows))), multiplicities(rng, len(given.rows), RESAMPLES)]
    )
    rare = given.groups == given.rare
    found = []
    for top in lists.values():
        per_query = []
        for page in top[:, : given.k]:
            drawn = times[:, page]
            per_query.append((drawn * rare[page]).sum(axis=1) / drawn.sum(axis=1))
        found.append(np.mean(per_query, axis=0))
    found = np.array(found)
    return plain(intervals.values(found[:, 0], found[:, 1:], LEVEL, SHARE))


def recall(data: Path) -> dict[str, Any]:
    """Recall of captions with mini on Flickr8k's test part, without and with the gate."""
    encoder = eq.load_encoder("mini")
    rows, table = embedded(data, "flickr8k", encoder)
    captions = [next(iter(texts)) for texts in table["captions"]]
    gender = eq.Attribute.load("gender")
    texts = encoded(encoder, captions)
    book = book_for(list(eq.PromptBook.curated("people-gender").prompts), gender, None)
    context = FitContext(gender, encoder=encoder, book=book, images=rows)
    operator = eq.methods.create("balanced", k=20).fit(context)
    searches = {
        "none": texts,
        "balanced, without the gate": operator.text(texts, captions, gate=False),
        "balanced": operator.text(texts, captions),
    }
    right = np.arange(len(rows))[:, None]
    found = {}
    for k in (5, 10):
        hits = [
            (np.argsort(-(t @ rows.T), axis=1)[:, :k] == right).any(1) for t in searches.values()
        ]
        found[f"R@{k}"] = plain(intervals.of_means(np.array(hits), RESAMPLES, LEVEL, SEED, SHARE))
    alone = sum(bool(operator.left_alone(text)) for text in captions)
    return {
        "methods": list(searches),
        "images": len(rows),
        "left_alone": alone,
        "recall": found,
        "resamples": RESAMPLES,
    }


def frontier(given: Collection) -> dict[str, Any]:
    """What is gained and lost at every strength, and what a page of another size costs."""
    operator = given.operators(["balanced"])["balanced"]
    assert isinstance(operator, BalancedOperator)
    at_strength = {f"{value:g}": operator.revised(strength=value) for value in STRENGTHS}
    known = np.ones(len(given.rows), bool)
    texts = encoded(given.encoder, given.prompts)
    lists = {
        label: rank_deep(one, given.rows, texts, given.prompts, known, given.k)
        for label, one in at_strength.items()
    }
    scores = texts @ given.rows.T
    whole = page_score(scores, lists["0"], given.k)
    at_page = {f"{k}": operator.revised(k=k) for k in PAGES}
    return {
        "title": given.title,
        "k": given.k,
        "strengths": list(STRENGTHS),
        "skew": skew(lists, given.groups, given.k),
        "kept": [page_score(scores, top, given.k) / whole for top in lists.values()],
        "map": average_precision(given, at_strength),
        "pages": list(PAGES),
        "page_map": average_precision(given, at_page),
        "resamples": RESAMPLES,
        "machine": machine.describe(),
    }


def measure(data: Path) -> None:
    for name, load in SETS.items():
        path = MEASUREMENTS / f"balanced_{name}.json"
        if not path.is_file():
            print(name, flush=True)
            path.write_text(json.dumps(measured(load(data)), indent=1) + "\n")
    path = MEASUREMENTS / "balanced_frontier.json"
    if not path.is_file():
        path.write_text(json.dumps(frontier(SETS["faces_race"](data)), indent=1) + "\n")
    path = MEASUREMENTS / "balanced_recall.json"
    if not path.is_file():
        path.write_text(json.dumps(recall(data), indent=1) + "\n")


# --- The page

SECTION = """## Balanced search

`python -m scripts.balanced_results` measured this part. [Balanced search](balanced.md) is solved on the collection itself, without labels; the labels only measure it. M = K: the page that is balanced is the page that is measured, and a fifth and twice of it
stand beside it. The first line of a cell is MaxSkew in percent of a nat. The second is how much of what no debiasing has above the floor is removed; 100 % is the floor itself, which is the mean of random rankings, so that a page in proportion
removes more. All intervals are of 95 %, from {resamples} resamples of the images, centred on the value. "Score kept" is the total similarity of the first K, as a share of that without debiasing. mAP is over queries whose right images are known
(objects on CelebA and Flickr8k, ages on FairFace), among all images and inside each group.

{verdicts}

{tables}
### A rare group

{rare_count} photographs of which {rare_share} show women. Their share of the first {rare_k} places, as a mean over 34 occupations:

{rare}

Without a method the share is right on average and wrong for most prompts, which is why the skew above is far from its floor.

### How much to balance

Two parameters choose between balance and what is found. `strength` says how far the page goes from its own shares to the collection's, and at each strength the page is the best of its kind. `k` says how long the balanced page is.
{frontier_title}, K = {frontier_k}, with index memberships. The second table balances pages of other lengths at full strength.
`equipoise compare ... --task retrieval --sweep --method balanced` draws the same line for a collection of your own that has captions.

{frontier}

{frontier_pages}

### Recall

{images:,} photographs of Flickr8k's test part, embedded by mini, and one caption of each as the query; k = 20. The gate leaves {left_alone} of the captions as they are, because they name a gender or speak of no person.

{recall}

### How to read this

- **No set is made worse by `balanced`**, in any of its three memberships: every interval of what it removes at K is above zero. {worse}
- **Beside the values that we were given.** The description of this method has, for index memberships, a skew of 1.9 on CelebA and 5.1 on Flickr8k, for text 3.5 and 6.6, and for FairFace by gender 5.2. On CelebA and Flickr8k each query has two optimal pages, and which one is taken moves the means by more than
  the difference; we take the one that is nearer to the target. On FairFace the difference is in the prototypes: with "a man, a boy" and "a woman, a girl" in place of the 34 prompts it is 5.1. [All readings](decisions/methods.md#balanced-search-beside-the-values-that-we-were-given) are in a table.
- **`interleave`** stops at K: the rest of its list is as it was, and at twice K it is nearly the undebiased one.
- **Utility.** Among all images of CelebA, mAP goes from {celeba_before} to {celeba_after}: ties and necklaces go with gender there, and a page in proportion shows fewer of them. Inside groups it is as before on CelebA and Flickr8k. On FairFace it falls, and most with fourteen groups: K is 500 there, more than the photographs that show a baby, and a page that long is filled by balance and not by age. A smaller K costs less, as the tables above show for race.
- **Prototypes** come from the 34 prompts with each group put in. On FairFace no prompt names an object that could be found, so nothing there is a recall.
"""

MAP = ("mAP", "mAP inside groups")
TITLES = {
    "none": "none",
    "balanced": "**balanced** (index)",
    "balanced (membership=text)": "balanced (text)",
    "balanced (membership=both)": "balanced (both)",
}


def read(name: str) -> dict[str, Any]:
    return json.loads((MEASUREMENTS / f"balanced_{name}.json").read_text())


def section() -> str:
    """The part of docs/results.md, from the files."""
    runs = {name: read(name) for name in SETS}
    found, rare = read("recall"), runs["faces_rare"]
    shares = rare["rare"]["shares"]
    lines = table(
        ["method", "share"],
        [
            [title(method), spread(share, 2)]
            for method, share in zip(rare["methods"], shares, strict=True)
        ],
    )
    recall_lines = []
    for i, method in enumerate(found["methods"]):
        cells = [spread(found["recall"][metric][i]) for metric in found["recall"]]
        recall_lines.append([method, *cells])
    overall = zip(runs["celeba"]["methods"], runs["celeba"]["map"]["overall"], strict=True)
    found_map = dict(overall)
    line = read("frontier")
    return SECTION.format(
        frontier_title=line["title"],
        frontier_k=line["k"],
        frontier=frontier_table(line),
        frontier_pages=page_table(line),
        resamples=found["resamples"],
        verdicts="\n".join(verdict(run) for run in runs.values()),
        tables="\n".join(skew_table(run) for run in runs.values()),
        rare_count=rare["title"].split("(")[1].split(" ")[0],
        rare_share=f"{100 * rare['groups'][rare['rare']['group']]:.1f} %",
        rare_k=rare["k"],
        rare=lines,
        images=found["images"],
        left_alone=found["left_alone"],
        recall=table(["search", *found["recall"]], recall_lines),
        worse=made_worse(runs.values()),
        celeba_before=spread(found_map["none"]),
        celeba_after=spread(found_map["balanced"]),
    )


def title(method: str) -> str:
    return TITLES.get(method, method)


def spread(one: dict[str, Any], digits: int = 1) -> str:
    """A value in percent with its interval."""
    value, low, high = (f"{100 * one[key]:.{digits}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def at_page(run: dict[str, Any], part: str, method: str) -> dict[str, Any]:
    return run["skew"][str(run["k"])][part][run["methods"].index(method)]


def verdict(run: dict[str, Any]) -> str:
    removed = at_page(run, "removed", "balanced")
    before, after = (at_page(run, "values", method) for method in ("none", "balanced"))
    kept = run["kept"][run["methods"].index("balanced")]
    return (
        f"- {run['title']}: {100 * before['value']:.1f} to {100 * after['value']:.1f}; removes"
        f" {spread(removed, 0)} % of the excess, keeps {kept:.1%} of the score."
    )


def made_worse(runs: Any) -> str:
    """The methods whose skew is above that of none for certain, and where."""
    found = []
    for run in runs:
        for method in run["methods"][1:]:
            removed = at_page(run, "removed", method)
            if removed["high"] < 0:
                found.append(f"`{method}` on {run['title']} ({spread(removed, 0)} %)")
            elif method.startswith("balanced") and removed["low"] <= 0:
                raise SystemExit(
                    f"{method} does not surely help on {run['title']}; change the page"
                )
    return f"Made worse: {'; '.join(found)}." if found else "Nor by any other method."


def skew_table(run: dict[str, Any]) -> str:
    depths = list(run["skew"])
    floors = ", ".join(f"{100 * run['skew'][m]['floor']:.1f} at {m}" for m in depths)
    head = ["method", *(f"MS@{m}" for m in depths), "score kept", *MAP]
    rows = []
    for i, method in enumerate(run["methods"]):
        cells = [title(method)]
        for m in depths:
            cell = spread(run["skew"][m]["values"][i])
            if method != "none":
                cell += f"<br>{spread(run['skew'][m]['removed'][i], 0)} %"
            cells.append(cell)
        means = [spread(run["map"][part][i]) for part in ("overall", "inside")]
        rows.append([*cells, f"{run['kept'][i]:.1%}", *means])
    words = (
        f"{run['queries']} queries, {len(run['groups'])} groups, K = {run['k']}; floors {floors}"
    )
    return f"**{run['title']}**: {words}; mAP over {len(run['right_queries'])} queries\n\n{table(head, rows)}\n"


def frontier_table(line: dict[str, Any]) -> str:
    """One row per strength."""
    head = ["strength", f"MS@{line['k']}", "of the excess removed, %", "score kept", *MAP]
    rows = []
    for i, strength in enumerate(line["strengths"]):
        value, removed = (line["skew"][part][i] for part in ("values", "removed"))
        means = [spread(line["map"][part][i]) for part in ("overall", "inside")]
        rows.append(
            [f"{strength:g}", spread(value), spread(removed, 0), f"{line['kept'][i]:.1%}", *means]
        )
    return table(head, rows)


def page_table(line: dict[str, Any]) -> str:
    """One row per length of the page."""
    rows = []
    for i, k in enumerate(line["pages"]):
        means = [spread(line["page_map"][part][i]) for part in ("overall", "inside")]
        rows.append([f"{k}", *means])
    return table(["K", *MAP], rows)


def main() -> None:
    measure(Path(sys.argv[1]) if len(sys.argv) > 1 else people.DATA)
    Path("docs/results.md").write_text(clip.page())


if __name__ == "__main__":
    main()
