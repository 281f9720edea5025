"""Our methods beside their authors' own code, on the same real embeddings: writes docs/beside.md.

Run from the repository root: ``python -m scripts.beside REPOSITORIES [EMBEDDINGS]``. REPOSITORIES is
a folder of clones, each called OWNER+NAME (bare ones lie in OWNER+NAME/repo). Nothing of them is
kept: functions are read from the newest commit, run, and forgotten. A repository that is not there
is left out of the table.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scripts import retrieval_by_gender as clip
from scripts.measured_runs import write_plain

import equipoise as eq
from equipoise.methods import _clip_clip as clip_clip
from equipoise.metrics import EQUAL_OPPORTUNITY

GENDER = eq.Attribute.load("gender")
MEASURED, PAGE = Path("docs/measurements/beside.json"), Path("docs/beside.md")


class Data(NamedTuple):
    """CelebA's thousand CLIP embeddings, 495 texts, and two words a group."""

    vectors: Any
    images: np.ndarray
    codes: np.ndarray
    texts: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Data:
        vectors, queries = clip.texts(folder)
        rows, table = clip.images(folder, "celeba")
        codes = (table["gender"] == "female").to_numpy().astype(int)
        return cls(vectors, unit(rows), codes, unit(vectors.encode_text(queries)))

    def words(self, *texts: str) -> np.ndarray:
        return unit(self.vectors.encode_text(list(texts)))

    def context(self, **given: Any) -> eq.FitContext:
        prototypes = {group: self.words(*words) for group, words in clip.WORDS.items()}
        fields: dict[str, Any] = {"prototypes": prototypes, "encoder": self.vectors}
        fields |= {"images": self.images, "sensitive_features": self.groups}
        return eq.FitContext(GENDER, **(fields | given))

    @property
    def groups(self) -> np.ndarray:
        return np.array(GENDER.groups)[self.codes]

    def fitted(self, method: str, *, context: Any = None, **params: Any) -> Any:
        return eq.methods.create(method, **params).fit(context or self.context())


def unit(rows: Any) -> np.ndarray:
    rows = np.asarray(rows, np.float64)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


# --- Reading their code ------------------------------------------------------------------------


class Repository:
    """A clone, of which files are read and nothing is imported."""

    def __init__(self, folder: Path, name: str):
        bare = folder / name.replace("/", "+") / "repo"
        self.name, self.path = name, bare if bare.is_dir() else bare.parent

    @property
    def there(self) -> bool:
        return self.path.is_dir()

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    @property
    def commit(self) -> str:
        return self.git("rev-parse", "--short", "HEAD").strip()

    def functions(self, path: str, **given: Any) -> dict[str, Any]:
        """The functions of a file, with names that its own imports would have given them."""
        tree = ast.parse(self.git("show", f"HEAD:{path}"))
        kept = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for node in kept:
            node.decorator_list, node.returns = [], None
            for argument in [*node.args.args, *node.args.kwonlyargs]:
                argument.annotation = None
        module = ast.Module(list[ast.stmt](kept), [])
        names: dict[str, Any] = {"np": np, **given}
        exec(compile(module, path, "exec"), names)
        return names

    def unpacked(self, folder: Path) -> Path:
        """All files, in a folder of their own."""
        archive = subprocess.run(
            ["git", "-C", str(self.path), "archive", "HEAD"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], check=True, input=archive.stdout)
        return folder


# --- The comparisons ---------------------------------------------------------------------------


def closed_form(there: Repository, data: Data) -> dict[str, float]:
    """The released closed form in float32 and, on rows of float16, as on a GPU."""
    import torch

    code = there.functions("debiasing.py", torch=torch)
    prototypes = {}
    for group, words in clip.WORDS.items():
        prototypes[group] = code["spherical_mean"](torch.tensor(data.words(*words)))
    space = code["construct_attribute_space"](prototypes)
    theirs = code["compute_optimal_debiased_embedding"]
    exact, half = data.fitted("closed-form"), data.fitted("closed-form", as_released="fp16")
    wide = theirs(torch.tensor(data.images), space).numpy()
    rows = torch.nn.functional.normalize(torch.tensor(data.texts).half(), dim=-1).float()
    narrow = theirs(rows, space).numpy()
    return {
        "closed-form, CelebA images, float32": _largest(exact.image(data.images), wide),
        "closed-form:as_released=fp16, 495 texts": _largest(half.text(data.texts), narrow),
    }


def biased_prompts(there: Repository, data: Data) -> dict[str, float]:
    """P0 and the calibrated projection."""
    from sklearn.decomposition import TruncatedSVD

    code = there.functions("discriminative/main.py", TruncatedSVD=TruncatedSVD)
    p0 = code["get_proj_matrix"](data.words("a Man", "a Woman"))
    pair = data.words("a Boy", "a Girl")
    m = code["get_M"](pair, [[0, 1]])
    p = p0 @ np.linalg.inv(np.eye(len(m)) + 1000 * m)
    pairs = data.context(prototypes=dict(zip(GENDER.groups, pair, strict=True)))
    words = ("a Man", "a Woman")
    proj, cali = (data.fitted(name, context=pairs, p0=words) for name in ("orth-proj", "orth-cali"))
    return {
        "orth-proj:p0=..., 495 texts": _largest(proj.text(data.texts), unit(data.texts @ p0.T)),
        "orth-cali:p0=..., 495 texts": _largest(cali.text(data.texts), unit(data.texts @ p.T)),
    }


class _References:
    """Reference images as their code expects a dataset: by name of a column, or by places."""

    def __init__(self, columns: dict[str, np.ndarray]):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["embedding"])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return _References({name: values[key] for name, values in self.columns.items()})


def bend(there: Repository, data: Data) -> dict[str, float]:
    """Six queries by their solver, with the generic prompts alone."""
    import torch
    from scipy.optimize import minimize
    from sklearn.decomposition import TruncatedSVD

    def cos_sim(a: Any, b: Any) -> Any:
        return torch.tensor(unit(np.atleast_2d(a)) @ unit(b).T)

    code = there.functions(
        "bend_utils.py", torch=torch, minimize=minimize, TruncatedSVD=TruncatedSVD,
        util=SimpleNamespace(cos_sim=cos_sim), print=lambda *_: None,
    )  # fmt: skip
    operator = data.fitted("bend-vlm", p0=("a Man", "a Woman"))
    projection = code["get_proj_matrix"](data.words("a Man", "a Woman"))
    references = _References({"embedding": data.images, "gender": data.groups})
    worst = 0.0
    for text in data.texts[:: len(data.texts) // 6][:6]:
        solved, _, _ = code["legrange_text"](
            text[None].copy(), references, "gender", list(GENDER.groups), 100, projection
        )
        worst = max(worst, _largest(operator.bent(text), solved[0]))
    return {"bend-vlm, 6 texts (their solver stops at 1e-6)": worst}


def prism(there: Repository, data: Data) -> dict[str, float]:
    """The projection off two words."""
    import torch

    words = ["a Man", "a Woman"]
    tokens = SimpleNamespace(to=lambda _: words)
    model = SimpleNamespace(encode_text=lambda given: torch.tensor(data.words(*given)))
    code = there.functions(
        "utils.py", torch=torch, F=torch.nn.functional, print=lambda *_: None,
        clip=SimpleNamespace(tokenize=lambda _: tokens),
    )  # fmt: skip
    p = code["orth_transforamtion_calculation"](SimpleNamespace(device="cpu"), model, words)
    prototypes = dict(zip(GENDER.groups, data.words(*words), strict=True))
    operator = data.fitted("prism-mini", context=data.context(prototypes=prototypes))
    theirs = data.images @ p.double().numpy()
    return {
        "prism-mini, CelebA images (theirs in float32)": _largest(
            operator.image(data.images), theirs
        )
    }


def clip_clip_information(there: Repository, data: Data) -> dict[str, float]:
    """The information of every dimension about gender, and which 112 are cut."""
    from scipy import ndimage

    code = there.functions(
        "utils.py", ndimage=ndimage, EPS=np.finfo(float).eps, np=np
    )  # fmt: skip
    theirs = np.array(
        [code["mutual_information_2d"](column, data.codes) for column in data.images.T]
    )
    ours = clip_clip.histogram_information(data.images, data.codes)
    cut = [set(np.argsort(-found)[:112].tolist()) for found in (ours, theirs)]
    return {
        "clip-clip, information of 512 dimensions": _largest(ours, theirs),
        "clip-clip, dimensions cut by one and not the other": float(len(cut[0] ^ cut[1])),
    }


def leace(there: Repository, data: Data) -> dict[str, float]:
    """The eraser, with the package's own tolerance."""
    import torch

    with tempfile.TemporaryDirectory() as place:
        folder = there.unpacked(Path(place))
        sys.path.insert(0, str(folder))
        from concept_erasure import LeaceFitter  # pyright: ignore[reportMissingImports]

        sys.path.remove(str(folder))
        found = {}
        for variant in ("leace", "orth"):
            rows = torch.tensor(data.images)
            labels = torch.tensor(data.codes)[:, None].double()
            fitter = LeaceFitter(
                data.images.shape[1], 1, method=variant, dtype=torch.float64, svd_tol=1e-5
            )
            theirs = fitter.update(rows, labels).eraser(rows).numpy()
            ours = data.fitted("leace", variant=variant).image(data.images)
            found[f"leace:variant={variant}, CelebA images"] = _largest(ours, theirs)
    return found


def released_metrics(there: Repository, data: Data) -> dict[str, float]:
    """MaxSkew@100 and recall of their retrieval code, equal opportunity of their classification."""
    import itertools

    import torch

    code = there.functions("retrieve.py", torch=torch)
    rng = np.random.default_rng(0)
    targets = rng.integers(0, len(data.images), len(data.texts))
    recalls, skews = code["compute_recall_and_maxskew"](
        torch.tensor(data.images), torch.tensor(data.texts), targets.tolist(),
        data.groups.tolist(), maxskew_ms=(100,),
    )  # fmt: skip
    scores = data.texts @ data.images.T
    skew = eq.metrics.max_skew(scores, sensitive_features=data.groups, m=100)
    recall = eq.metrics.recall_at_k(scores, targets, 10)
    rates = there.functions("classification.py", itertools=itertools)
    y, groups = rng.integers(0, 7, 4000), rng.integers(0, 4, 4000)
    predicted = np.where(rng.random(4000) < 0.4 + 0.1 * groups, y, rng.integers(0, 7, 4000))
    tprs = rates["compute_group_class_tpr"](y, predicted, groups, range(4), range(7))
    theirs = rates["equal_opportunity_gaps_multiclass"](tprs, range(4), range(7))
    one = rates["equal_opportunity_gaps_single_class_multigroup"](tprs, range(4), 3)
    ours = [
        eq.metrics.equal_opportunity(
            y,
            predicted,
            sensitive_features=groups,
            classes=classes,
            **EQUAL_OPPORTUNITY[form][which],
        )
        for form, classes in (("released", None), ("pairs", [3]))
        for which in ("avg", "max")
    ]
    return {
        "MaxSkew@100, 495 texts": abs(skew - skews[100]),
        "R@10, 495 texts": abs(recall - recalls[10]),
        "equal opportunity, 7 classes and 4 groups": _largest(np.array(ours[:2]), np.array(theirs)),
        "equal opportunity, one class and 4 groups": _largest(np.array(ours[2:]), np.array(one)),
    }


def _largest(ours: Any, theirs: Any) -> float:
    return float(np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max())


COMPARISONS: list[tuple[str, Callable[[Repository, Data], dict[str, float]]]] = [
    ("Supltz/Debias_VLM", closed_form),
    ("Supltz/Debias_VLM", released_metrics),
    ("chingyaoc/debias_vl", biased_prompts),
    ("waltergerych/bend_vlm", bend),
    ("MahdiyarMM/PRISM", prism),
    ("eric-ai-lab/Mitigate-Gender-Bias-in-Image-Search", clip_clip_information),
    ("EleutherAI/concept-erasure", leace),
]


def measure(folder: Path, embeddings: Path) -> None:
    """Every comparison whose repository is there."""
    data = Data.read(embeddings)
    rows = []
    for name, compare in COMPARISONS:
        there = Repository(folder, name)
        if not there.there:
            print(f"{name} is not in {folder}; left out")
            continue
        for what, largest in compare(there, data).items():
            rows.append(
                {"repository": name, "commit": there.commit, "what": what, "largest": largest}
            )
            print(rows[-1], flush=True)
    write_plain(MEASURED, {"rows": rows})


HEAD = """# Beside the authors' code

This page runs our methods and the authors' own code on the same real embeddings: CelebA's thousand images and 495 class names by OpenAI CLIP ViT-B/32, with the prototypes "a Man", "a Boy" and "a Woman", "a Girl". `python -m scripts.beside FOLDER` reads functions from clones of their repositories in FOLDER, runs them, and
writes this page. None of their code is in ours. "Largest difference" is the largest over all entries of all rows, or the difference of the metric.

"""
TAIL = """
Where the authors' code computes in float32, the difference is float32's rounding. Some methods are not in the table. *roboshot*, *sfid* and *fairer-clip* have their arithmetic inside scripts that load data sets, and *prism*, *prompt-array* and *joint-vl* are trained. The tests check their formulas, and [methods](methods.md) says where ours differ. *dear* and *saner* have
no code. We wrote the re-rankers, *splince* and *spd* from their papers.
"""


def page() -> str:
    """The page, from the file."""
    lines = ["| repository | commit | what | largest difference |", "|---|---|---|---|"]
    for row in json.loads(MEASURED.read_text())["rows"]:
        lines.append(
            f"| {row['repository']} | {row['commit']} | {row['what']} | {row['largest']:.1e} |"
        )
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> None:
    given = [Path(word) for word in sys.argv[1:]]
    if not given:
        raise SystemExit(__doc__)
    measure(given[0], given[1] if len(given) > 1 else Path("../shared/data/embeddings"))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
