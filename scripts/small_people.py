"""Balanced search where people are small, by true labels: shifted query, re-ranking and quotas.

Run from the repository root: ``python -m scripts.small_people [DATA]``, the folder that holds
embeddings/ and people/. It writes docs/measurements/small_people.json (delete the file to measure
again) and the tables of docs/small-people.md. Embeddings of photographs are kept in build/balanced.

A true label of Flickr8k is what captions say: at least three of five name one gender, and none the
other. mini has learned from all of Flickr8k but its validation part, which chose between runs of
its training, and its test part.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import hypergeom
from scripts import balanced_results as results
from scripts import people
from scripts import retrieval_by_gender as clip

import equipoise as eq
from equipoise._audit import intervals
from equipoise._bench import machine
from equipoise._bench.balance import _collection as drawn_collection
from equipoise._bench.timing import interleaved
from equipoise._rows import unit
from equipoise._verbs.search import PROTOTYPE, balancing_context
from equipoise.evaluation._grids import percent as in_percent
from equipoise.methods import FitContext
from equipoise.metrics._intervals import ANY, POSITIVE, SHARE, Limits

ROOT = Path(__file__).resolve().parents[1]
OUT, PAGE = ROOT / "docs/measurements/small_people.json", ROOT / "docs/small-people.md"
BEGIN, END = "<!-- small people -->\n", "<!-- /small people -->"
GENDER = eq.Attribute("gender", ("male", "female"))
DEPTHS, TARGETS = (20, 100), ("collection", "equal")
RESAMPLES, LEVEL, SEED = 1000, 0.95, 0
PLAIN, DEFAULT = "none", "query, index"
ARMS: dict[str, dict[str, str]] = {
    DEFAULT: {},
    "query, text": {"membership": "text"},
    "query, both": {"membership": "both"},
    "rerank": {"mode": "rerank"},
}
QUOTAS = "interleave"
OUTDOORS = (
    "climber", "rock climber", "hiker", "mountain biker", "cyclist", "snowboarder", "skier",
    "swimmer", "diver", "runner", "jogger", "kayaker", "rower", "sailor", "horse rider",
    "rodeo rider", "hockey player", "basketball player", "rugby player", "volleyball player",
    "gymnast", "acrobat", "guitarist", "drummer", "street performer", "juggler", "wrestler",
    "boxer", "cheerleader", "toddler", "child", "baby", "teenager", "elderly person", "hunter",
    "camper", "tourist", "pedestrian", "motorcyclist", "shopper", "protester", "ice skater",
    "roller skater",
)  # fmt: skip
TIMED = 15  # searches of each kind
LARGE = (200_000, 512)  # drawn rows, to time a search on


# --- Collections


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images, what is known of them, and what is searched for.

    labels (n,): the true gender, or None. prototype: as ``balanced`` has it.
    """

    title: str
    rows: np.ndarray
    labels: np.ndarray
    queries: list[str]
    texts: np.ndarray
    context: FitContext
    prototype: str = PROTOTYPE

    @cached_property
    def known(self) -> np.ndarray:
        return np.array([label in GENDER.groups for label in self.labels])

    @cached_property
    def seen(self) -> np.ndarray:
        """Return the group whose prompts are nearest to each image (n,)."""
        return self.fitted({}).groups_of(np.arange(len(self.rows)))

    def fitted(self, params: dict[str, str]) -> Any:
        """Return the operator that ``eq.search`` fits, with other parameters."""
        method = eq.methods.create("balanced", prototype=self.prototype, nearest=True, **params)
        return method.fit(self.context)

    @cached_property
    def operators(self) -> dict[str, Any]:
        return {name: self.fitted(params) for name, params in ARMS.items()}

    def pages(self, k: int, target: str) -> dict[str, np.ndarray]:
        """Return the places (queries, k) of the images on each arm's pages."""
        plain = np.argsort(-(self.texts @ self.rows.T), axis=1, kind="stable")[:, :k]
        found = {PLAIN: plain}
        for name, operator in self.operators.items():
            there = operator.revised(k=k, target=target).search(self.texts, k)
            found[name] = there.indices
        quotas = eq.methods.create(QUOTAS, k=k, target=target, prototype=self.prototype)
        scores = quotas.fit(self.context).scores(self.rows, self.texts)
        found[QUOTAS] = np.argsort(-scores.T, axis=1, kind="stable")[:, :k]
        return found


def person_queries() -> list[str]:
    """Return occupations and activities; nobody's gender is named."""
    occupations = list(eq.PromptBook.curated("occupations-gender").prompts)
    more = [*people.OCCUPATIONS, *OUTDOORS]
    named = [f"a photo of {'an' if name[0] in 'aeio' else 'a'} {name}" for name in more]
    activities = list(eq.PromptBook.curated("people-gender").prompts)
    return list(dict.fromkeys([*occupations, *named, *activities]))


def of_mini(title: str, rows: np.ndarray, labels: np.ndarray, encoder: Any) -> Pictures:
    queries = person_queries()
    texts = np.asarray(encoder.encode_text(queries))
    context = balancing_context(eq.Attribute.load("gender"), rows, encoder)
    return Pictures(title, rows, labels, queries, texts, context)


def of_clip(name: str, data: Path, whole: bool) -> Pictures:
    """Return CelebA or Flickr8k with CLIP; ``whole``: with the images that have no label."""
    given = results.of_clip(name, data)
    rows, labels = given.rows, given.groups.astype(object)
    if whole:
        with np.load(data / "embeddings" / clip.FILES[name], allow_pickle=False) as file:
            rows, labels = (
                unit(file["image"].astype(np.float32)),
                only_known(file["caption_gender"]),
            )
    texts = unit(results.encoded(given.encoder, given.prompts))
    context = FitContext(given.attribute, encoder=given.encoder, book=given.book, images=rows)
    title = clip.NAMES["celeba"] if name == "celeba" else f"Flickr8k ({len(rows):,} images)"
    return Pictures(f"{title}, CLIP", rows, labels, given.prompts, texts, context, "both")


def flickr(data: Path, encoder: Any) -> pd.DataFrame:
    """Return every photograph's part, captions, gender and unit row."""
    path = results.WORK / "flickr8k_all.npy"
    table = pd.read_parquet(data / "people" / "flickr8k.parquet")
    rows = unit(embedded(path, list(table["image"]), encoder))
    sys.path.append("mini")  # the rule is that of mini's training
    rule = importlib.import_module("training.prepare").caption_gender
    genders = only_known(table["captions"].map(rule).to_numpy(object))
    return table[["split", "captions"]].assign(gender=genders, row=list(rows))


def embedded(path: Path, photographs: list[bytes], encoder: Any) -> np.ndarray:
    """Return the rows of photographs, kept for the next time."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = []
        for start in range(0, len(photographs), 250):
            some = photographs[start : start + 250]
            parts.append(encoder.encode_images([Image.open(io.BytesIO(one)) for one in some]))
        np.save(path, np.concatenate(parts))
    return np.load(path)


def only_known(labels: np.ndarray) -> np.ndarray:
    return np.array([one if one in GENDER.groups else None for one in labels.tolist()], object)


def collections(data: Path, encoder: Any) -> Iterator[Pictures]:
    """Yield every set; those of Flickr8k with labelled images alone, and whole."""
    table = flickr(data, encoder)
    parts = {
        "Flickr8k": table["split"].unique(),
        "Flickr8k validation and test": ["val", "test"],
        "Flickr8k test": ["test"],
    }
    for name, splits in parts.items():
        there = table["split"].isin(splits)
        for words, kept in (("labelled", there & table["gender"].notna()), ("whole", there)):
            rows = np.stack(list(table["row"][kept]))
            labels = np.array(list(table["gender"][kept]), object)
            yield of_mini(f"{name}, {words}, mini", rows, labels, encoder)
    faces = pd.read_parquet(data / "people" / "fairface_val.parquet")
    rows = unit(embedded(results.WORK / "fairface_val.npy", list(faces["image"]), encoder))
    yield of_mini("FairFace validation, mini", rows, faces["gender"].to_numpy(object), encoder)
    at_work = pd.read_parquet(data / "people" / "idenprof.parquet")
    rows = unit(embedded(results.WORK / "idenprof_all.npy", list(at_work["image"]), encoder))
    nobody = np.full(len(rows), None)
    yield of_mini("IdenProf, mini", rows, nobody, encoder)
    yield of_clip("flickr8k", data, whole=False)
    yield of_clip("flickr8k", data, whole=True)
    yield of_clip("celeba", data, whole=False)


# --- What pages are measured by


def chance(given: Pictures, k: int) -> dict[str, float]:
    """Return what a random page is expected to have: of |share - target| and of MaxSkew, exactly.

    A page of k has some images with a label, and pages count as much as they have of them.
    """
    known = given.labels[given.known]
    share = float(np.mean(known == "male"))
    men, everybody = int(np.sum(known == "male")), len(known)
    total = {"off": 0.0, "skew": 0.0}
    for labelled in range(1, min(k, everybody) + 1):
        there = hypergeom.pmf(labelled, len(given.rows), everybody, k)
        counts = np.arange(labelled + 1)
        likely = hypergeom.pmf(counts, everybody, men, labelled)
        weight = there * labelled * len(given.rows) / (k * everybody)
        for name, per_count in (
            ("off", np.abs(counts / labelled - share)),
            ("skew", skews(counts / labelled, share)),
        ):
            total[name] += float(weight * (likely @ per_count))
    return total


def skews(shares: np.ndarray, target: float) -> np.ndarray:
    """Return MaxSkew of pages with these shares of men."""
    with np.errstate(divide="ignore"):
        men, women = np.log(shares / target), np.log((1 - shares) / (1 - target))
    return np.maximum(men, women)


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages (queries, k) of one arm, and what is known of their images."""

    given: Pictures
    places: np.ndarray
    kept: np.ndarray
    target: str

    @cached_property
    def seen_men(self) -> np.ndarray:
        return self.given.seen[self.places] == "male"

    @cached_property
    def counted(self) -> np.ndarray:
        """Return how far the counts of each page are off the target of its certificate."""
        aimed = np.mean(self.given.seen == "male") if self.target == "collection" else 0.5
        return self.seen_men.mean(axis=1) - aimed

    def values(self, images: np.ndarray, queries: np.ndarray) -> dict[str, float]:
        """Return every measure, where images and queries have these multiplicities."""
        found = {
            "counted": float(np.average(np.abs(self.counted), weights=queries)),
            "kept": float(np.average(self.kept, weights=queries)),
        }
        if self.given.known.any():
            found |= self._by_labels(images * self.given.known, queries)
        return found

    def _by_labels(self, images: np.ndarray, queries: np.ndarray) -> dict[str, float]:
        """Return what true labels say. off: |share - target|. lean: share - target, of men. apart:
        |counted share - share|. follows: the correlation, over pages, of what counts and labels
        say that a page is off.
        """
        men = self.given.labels == "male"
        usual = float(images @ men / images.sum())
        aimed = usual if self.target == "collection" else 0.5
        times = images[self.places].astype(float)
        size = times.sum(axis=1)
        some = (size > 0) & (queries > 0)
        times, size = times[some], size[some]
        weights = queries[some] * size
        share = (times * men[self.places[some]]).sum(axis=1) / size
        counted = (times * self.seen_men[some]).sum(axis=1) / size
        mean = partial(np.average, weights=weights)
        found = {
            "off": mean(np.abs(share - aimed)),
            "lean": mean(share - aimed),
            "apart": mean(np.abs(counted - share)),
            "follows": correlation(self.counted[some], share - aimed, weights),
        }
        if self.target == "collection":
            found["skew"] = mean(skews(share, usual))
        return {name: float(value) for name, value in found.items()}


def correlation(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> float:
    covariance = np.cov(a, b, aweights=weights)
    scale = np.sqrt(covariance[0, 0] * covariance[1, 1])
    return covariance[0, 1] / scale if scale > 1e-9 else float("nan")  # counts that never differ


LIMITS: dict[str, Limits] = {"off": SHARE, "apart": SHARE, "counted": SHARE, "skew": POSITIVE}


def measured(given: Pictures, k: int, target: str) -> dict[str, Any]:
    """Return every measure of every arm with its interval, and its difference from the default.

    Images and queries are resampled, and the pages stay as they are.
    """
    places = given.pages(k, target)
    scores = given.texts @ given.rows.T
    totals = {name: np.take_along_axis(scores, p, axis=1).sum(axis=1) for name, p in places.items()}
    order = [DEFAULT, *(name for name in places if name != DEFAULT)]
    arms = [Pages(given, places[n], totals[n] / totals[PLAIN], target) for n in order]
    once = np.ones(len(given.rows)), np.ones(len(given.texts))
    points = [arm.values(*once) for arm in arms]
    draws = [[arm.values(*times) for arm in arms] for times in resamples(given)]
    found: dict[str, Any] = {"k": k, "target": target, "arms": order}
    if given.known.any() and target == "collection":
        found["random page"] = chance(given, k)
    for name in points[0]:
        at = np.array([one[name] for one in points])
        replicates = np.array([[one[name] for one in row] for row in draws]).T
        values = intervals.values(at, replicates, LEVEL, LIMITS.get(name, ANY))
        found[name] = [None if one.value is None else one.to_plain() for one in values]
    found["said"] = [float(np.mean(np.abs(arm.counted) > 2 / k)) for arm in arms]
    found["worst count"] = worst(given, arms)
    return found


def resamples(given: Pictures) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield multiplicities of the images and of the queries."""
    images, queries = np.random.default_rng(SEED).spawn(2)
    for _ in range(RESAMPLES):
        yield drawn(images, len(given.rows)), drawn(queries, len(given.texts))


def drawn(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return how often each comes in as many draws with replacement."""
    return np.bincount(rng.integers(0, size, size), minlength=size).astype(float)


def worst(given: Pictures, arms: list[Pages]) -> list[dict[str, Any]]:
    """Return the query of each arm whose counts are furthest off, and the share of men counted."""
    found = []
    for arm in arms:
        i = int(np.abs(arm.counted).argmax())
        found.append({"query": given.queries[i], "male": float(arm.seen_men[i].mean())})
    return found


def about(given: Pictures) -> dict[str, Any]:
    """Return what a set is: its size, its shares, and how often the prompts are right."""
    found: dict[str, Any] = {
        "title": given.title,
        "images": len(given.rows),
        "labelled": int(given.known.sum()),
        "queries": len(given.queries),
        "seen male": float(np.mean(given.seen == "male")),
    }
    if given.known.any():
        labels, seen = given.labels[given.known], given.seen[given.known]
        found["male"] = float(np.mean(labels == "male"))
        found["right"] = {g: float(np.mean(seen[labels == g] == g)) for g in GENDER.groups}
    return found


# --- What is found, and what it costs


def recall(data: Path, encoder: Any) -> dict[str, Any]:
    """Return R@5 of the captions of Flickr8k's test part, as ``eq.search`` serves them: with the
    gate. Images are resampled, and bring their captions.
    """
    table = flickr(data, encoder)
    table = table[table["split"] == "test"]
    captions = [text for texts in table["captions"] for text in texts]
    right = np.repeat(np.arange(len(table)), [len(texts) for texts in table["captions"]])
    rows = np.stack(list(table["row"]))
    given = of_mini("", rows, np.full(len(rows), None), encoder)
    texts = np.asarray(encoder.encode_text(captions))
    balanced = np.array([not given.operators[DEFAULT].left_alone(text) for text in captions])
    plain = np.argsort(-(texts @ rows.T), axis=1, kind="stable")[:, :5]
    hits = {name: {} for name in (*ARMS, PLAIN)}
    for k in DEPTHS:
        for name, operator in given.operators.items():
            best = plain.copy()
            best[balanced] = operator.revised(k=k).search(texts[balanced], k).indices[:, :5]
            hits[name][k] = (best == right[:, None]).any(axis=1)
        hits[PLAIN][k] = (plain == right[:, None]).any(axis=1)
    counts = {"images": len(rows), "captions": len(captions), "balanced": int(balanced.sum())}
    found: dict[str, Any] = {**counts, "arms": list(hits)}
    for k in DEPTHS:
        for words, some in (("all", np.ones(len(captions), bool)), ("balanced", balanced)):
            by_arm = np.array([hits[name][k][some] for name in hits])
            found[f"{words}, k = {k}"] = by_image(by_arm, right[some], len(rows))
    return found


def by_image(hits: np.ndarray, right: np.ndarray, count: int) -> list[dict[str, Any]]:
    """Return the share of hits (arms, captions) of each arm; ``right``: each caption's image."""
    rng = np.random.default_rng(SEED)
    replicates = []
    for _ in range(RESAMPLES):
        times = drawn(rng, count)[right]
        replicates.append(hits @ times / times.sum())
    values = intervals.values(hits.mean(axis=1), np.array(replicates).T, LEVEL, SHARE)
    return [one.to_plain() for one in values]


def search_in_turn(given: Pictures, operator: Any) -> Callable[[], object]:
    """Return what searches for the next text each time that it is called."""
    texts = iter(given.texts[:, None])
    return lambda: eq.search(given.rows, next(texts), 20, balance=operator)


def seconds(given: Pictures) -> list[dict[str, Any]]:
    """Return the processor's seconds per search: as it is, by a shifted query and re-ranked."""
    index, texts, axes = drawn_collection(*LARGE, TIMED + 1, 2)
    named = dict(zip(GENDER.groups, axes, strict=True))
    context = FitContext(GENDER, prototypes=named, images=index)
    made = Pictures("drawn", index, np.full(len(index), None), [], texts, context, "both")
    found = []
    for one in (given, made):
        operators = {name: one.fitted(ARMS[name]) for name in (DEFAULT, "rerank")}
        timed = {
            name: search_in_turn(one, operators.get(name)) for name in (PLAIN, DEFAULT, "rerank")
        }
        taken = interleaved(timed, TIMED, clock=time.process_time)
        found.append({"images": len(one.rows), "dim": one.rows.shape[1], "seconds": taken})
    return found


# --- What is written


def measure(data: Path) -> dict[str, Any]:
    encoder = eq.load_encoder("mini")
    found = []
    timed = []
    for given in collections(data, encoder):
        print(given.title, flush=True)
        pages = [measured(given, k, target) for target in TARGETS for k in DEPTHS]
        found.append(about(given) | {"pages": pages})
        if not given.known.any():
            timed = seconds(given)
    return {
        "sets": found,
        "recall": recall(data, encoder),
        "processor seconds": timed,
        "resamples": RESAMPLES,
        "machine": machine.describe(),
    }


def rounded(found: Any) -> Any:
    """Return a document with six digits after the point."""
    if isinstance(found, dict):
        return {key: rounded(one) for key, one in found.items()}
    if isinstance(found, list):
        return [rounded(one) for one in found]
    return round(found, 6) if isinstance(found, float) else found


def tables() -> str:
    """Return the tables of docs/small-people.md, each under its heading."""
    document = json.loads(OUT.read_text())
    sets = document["sets"]
    titled = {
        "Points off the target, by labels": label_table(sets),
        "The first 100, by count and by labels": count_table(sets),
        "MaxSkew by labels, and the score kept": cost_table(sets),
        "Recall of captions": recall_table(document),
    }
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in titled.items()) + "\n"


def page_of(one: dict[str, Any], k: int, target: str) -> dict[str, Any]:
    return next(page for page in one["pages"] if (page["k"], page["target"]) == (k, target))


def arm(page: dict[str, Any], measure: str, name: str) -> dict[str, Any]:
    return page[measure][page["arms"].index(name)]


def signed(one: dict[str, Any]) -> str:
    """Return a difference in points, bold where its interval is on one side of zero."""
    value, low, high = (in_percent(one[key], signed=True) for key in ("value", "low", "high"))
    beyond = one["low"] > 0 or one["high"] < 0
    return f"**{value}** [{low}, {high}]" if beyond else f"{value} [{low}, {high}]"


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}"


def label_table(sets: list[dict[str, Any]]) -> str:
    """Return |share - target| by true labels, for both targets."""
    names = ["as it is", "query", "rerank", "rerank less query"]
    head = ["collection", "k", "random page", *names, *(f"equal: {name}" for name in names)]
    rows = []
    for one in sets:
        for k in DEPTHS if one["labelled"] else ():
            by_chance = page_of(one, k, "collection")["random page"]["off"]
            cells = [one["title"], str(k), percent(by_chance)]
            for target in TARGETS:
                page = page_of(one, k, target)
                cells.append(percent(arm(page, "off", PLAIN)["value"]))
                cells += [results.spread(arm(page, "off", name)) for name in (DEFAULT, "rerank")]
                cells.append(signed(arm(page, "off", "rerank")["change"]))
            rows.append(cells)
    return results.table(head, rows)


def count_table(sets: list[dict[str, Any]]) -> str:
    """Return how far pages are off by the prompts' counts and by labels, at the larger k."""
    head = ["collection", "prompts right, men and women", "target"]
    for words in ("count", "labels"):
        head += [f"{words}: {name}" for name in ("query", "rerank", "quotas")]
    rows = []
    for one in sets:
        right = "unknown"
        if one["labelled"]:
            right = " and ".join(f"{one['right'][group]:.0%}" for group in GENDER.groups)
        for target in TARGETS:
            page = page_of(one, DEPTHS[-1], target)
            cells = [one["title"], right, target]
            for measure in ("counted", "off"):
                for name in (DEFAULT, "rerank", QUOTAS):
                    known = measure in page
                    cells.append(percent(arm(page, measure, name)["value"]) if known else "unknown")
            rows.append(cells)
    return results.table(head, rows)


def cost_table(sets: list[dict[str, Any]]) -> str:
    """Return MaxSkew by labels beside its floor, and the score that is kept."""
    arms = {"query": DEFAULT, "text": "query, text", "both": "query, both", "rerank": "rerank"}
    head = ["collection", "k", "floor", "as it is", *arms, *(f"kept: {name}" for name in arms)]
    rows = []
    for one in sets:
        for k in DEPTHS:
            page = page_of(one, k, "collection")
            skew = ["unknown"] * (2 + len(arms))
            if one["labelled"]:
                skew = [percent(page["random page"]["skew"])]
                skew += [results.spread(arm(page, "skew", n)) for n in (PLAIN, *arms.values())]
            kept = [f"{arm(page, 'kept', name)['value']:.1%}" for name in arms.values()]
            rows.append([one["title"], str(k), *skew, *kept])
    return results.table(head, rows)


def recall_table(document: dict[str, Any]) -> str:
    """Return R@5 of all captions, and of those that are balanced."""
    found = document["recall"]
    columns = [f"{words}, k = {k}" for words in ("all", "balanced") for k in DEPTHS]
    rows = []
    for i, name in enumerate(found["arms"]):
        rows.append([name, *(results.spread(found[column][i]) for column in columns)])
    titles = [f"R@5, {column}" for column in columns]
    return results.table(["search", *titles], [rows[-1], *rows[:-1]])


def page() -> str:
    """Return docs/small-people.md with the tables between their marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}{tables()}{END}{after}"


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else people.DATA
    if not OUT.is_file():
        OUT.write_text(json.dumps(rounded(measure(data)), indent=1) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
