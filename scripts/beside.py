"""Our methods beside their authors' own code, on the same real embeddings: writes docs/beside.md.

Run from the repository root: ``python -m scripts.beside REPOSITORIES [EMBEDDINGS]``. REPOSITORIES is
a folder of clones, each called OWNER+NAME (bare ones lie in OWNER+NAME/repo). Nothing of them is
kept: functions are read from the newest commit, run, and forgotten. A repository that is not there
is left out of the table.
"""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy
import scipy.linalg
from scripts import retrieval_by_gender as clip
from scripts.measured_runs import write_plain

import equipoise as eq
from equipoise.encoders._head_locating import Decisions, _of_worst_groups, behind_errors, decide
from equipoise.methods import _clip_clip as clip_clip
from equipoise.methods import _fairer_clip as fairer
from equipoise.methods._fa_ir import at_least
from equipoise.methods._rlace import fantope
from equipoise.metrics import EQUAL_OPPORTUNITY

GENDER = eq.Attribute.load("gender")
EIGENPROBLEM = "solve_standard_eigenproblem_for_largest_eigenvalues"
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
        return self._run(path, self._defined(path, ast.FunctionDef), given)

    def classes(self, path: str, **given: Any) -> dict[str, Any]:
        """The classes of a file, for this machine: on its processor, in float64."""
        found = [_OnProcessor().visit(node) for node in self._defined(path, ast.ClassDef)]
        return self._run(path, found, given)

    def statements(
        self, path: str, condition: str, since: str = "", **given: Any
    ) -> dict[str, Any]:
        """The names that the statements under ``if condition`` leave, run from ``since`` on."""
        for node in self._defined(path, ast.If):
            if condition in ast.unparse(node.test):
                body = node.body
                start = 0
                while since and not ast.unparse(body[start]).startswith(f"{since} ="):
                    start += 1
                return self._run(path, body[start:], given)
        raise ValueError(f"{self.name} has no `if {condition}` in {path}")

    def _defined(self, path: str, kind: type[ast.stmt]) -> list[Any]:
        tree = ast.parse(self.git("show", f"HEAD:{path}"))
        return [node for node in tree.body if isinstance(node, kind)]

    def _run(self, path: str, kept: list[ast.stmt], given: dict[str, Any]) -> dict[str, Any]:
        for node in kept:
            if isinstance(node, ast.FunctionDef):
                _without_types(node)
        module = ast.fix_missing_locations(ast.Module(list[ast.stmt](kept), []))
        names: dict[str, Any] = {"np": np, "__name__": path, **given}
        exec(compile(module, path, "exec"), names)
        return names

    def unpacked(self, folder: Path) -> Path:
        """All files, in a folder of their own."""
        archive = subprocess.run(
            ["git", "-C", str(self.path), "archive", "HEAD"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], check=True, input=archive.stdout)
        return folder


def _without_types(node: ast.FunctionDef) -> None:
    """Take off what a file's imports would have to give."""
    node.decorator_list, node.returns = [], None
    for argument in [*node.args.args, *node.args.kwonlyargs]:
        argument.annotation = None


class _OnProcessor(ast.NodeTransformer):
    """Code for a GPU in float32, as code for a processor in float64."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("cpu") if node.value == "cuda" else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node) == "torch.float":
            node.attr = "float64"
        return self.generic_visit(node)


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


def roboshot(there: Repository, data: Data) -> dict[str, float]:
    """Images without two differences of gender, with one of hats and glasses doubled, and both."""
    reject = (("a Man", "a Woman"), ("a Boy", "a Girl"))
    accept = (("a Hat", "a Glasses"),)
    seen: list[np.ndarray] = []

    def caught(rows: Any, _: Any) -> tuple[None, None]:
        seen.append(np.array(rows))
        return None, None

    from sklearn.metrics.pairwise import cosine_similarity

    there.statements(
        "run.py", "__main__", since="spurious_vectors", cosine_similarity=cosine_similarity,
        torch=SimpleNamespace(Tensor=np.asarray), make_clip_preds=caught, test_X=data.images,
        test_Y=None, label_emb=data.texts, evaluate=lambda *_: None, print=lambda *_: None,
        dataset_name="", accept_emb=accept,
        reject_emb_all=np.stack([data.words(*pair) for pair in reject]),
        accept_emb_all=np.stack([data.words(*pair) for pair in accept]),
    )  # fmt: skip
    without, _, both = seen
    rejected = data.fitted("roboshot", reject=reject)
    doubled = data.fitted("roboshot", reject=reject, accept=accept)
    return {
        "roboshot:reject=..., CelebA images": _largest(rejected.image(data.images), without),
        "roboshot:reject=...,accept=..., CelebA images": _largest(doubled.image(data.images), both),
    }


def sfid(there: Repository, data: Data) -> dict[str, float]:
    """The coordinates and values for images, with one forest for both: theirs has no seed."""
    import torch
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    method = eq.methods.create("sfid", k=100, modality="image")
    train, held = train_test_split(
        np.arange(len(data.images)), test_size=0.25, random_state=0, stratify=data.codes
    )
    parts = {"train": train, "val": held}

    def load(path: str) -> dict[str, Any]:
        rows = parts[Path(path).stem.split("_")[-1]]
        groups = np.stack([data.codes[rows]] * 2, axis=1)
        return {"image_embeddings": data.images[rows], "sensitive_attributes": groups}

    def forest(n_estimators: int) -> Any:
        return RandomForestClassifier(n_estimators, random_state=0)

    found = there.statements(
        "src/run_zc_retrieval.py", "'image' in args.target", threshold=0.7, device="cpu",
        torch=SimpleNamespace(load=load, tensor=torch.tensor, mean=torch.mean), clip_name="",
        RandomForestClassifier=forest, dump=lambda *_: None, print=lambda *_: None,
        os=SimpleNamespace(path=SimpleNamespace(exists=lambda _: False)),
        args=SimpleNamespace(image_prune_num=100),
    )  # fmt: skip
    places = np.sort(found["img_important_indices"].numpy())
    values = found["img_mean_features_lowconfidence"].numpy()[places]
    operator: Any = method.fit(data.context())
    fill = operator.fills["image"]
    return {
        "sfid:k=100, coordinates overwritten by one and not the other": float(
            len(set(places.tolist()) ^ set(fill.places.tolist()))
        ),
        "sfid:k=100, their values (theirs in float32)": _largest(fill.values, values),
    }


def fairer_clip(there: Repository, data: Data) -> dict[str, float]:
    """The encodings of images: one eigenproblem by class and gender, and one by the text's too."""
    import torch

    # three classes by the nearest of three words, 300 random features drawn by ours
    y = (data.images @ data.words("a Hat", "a Glasses", "a Tie").T).argmax(1)
    rng = np.random.default_rng(0)
    drawn = fairer.Features.draw(data.images, 300, rng)
    labels, groups = np.eye(3)[y], np.eye(2)[data.codes]
    other = rng.standard_normal((3, 2))[y]
    problem = fairer._Problem(drawn, data.images, np.ones(len(y)), 3e-5, 0.7, 0.3)
    gaussian = there.classes("hal/kernels/gaussian.py", torch=torch, math=math)["RFFGaussian"]
    encoder = there.classes(
        "hal/models/kernelized_encoder.py", torch=torch, nn=torch.nn, Parameter=torch.nn.Parameter
    )["KernelizedEncoder"]
    kernels = SimpleNamespace(RFFGaussian=gaussian, Same=lambda: lambda given: given)
    centre = SimpleNamespace(mean_center=lambda rows, dim: rows - rows.mean(dim, keepdim=True))
    solvers = there.classes(
        "build_kernel.py", torch=torch, kernels=kernels, misc=centre,
        models=SimpleNamespace(KernelizedEncoder=encoder),
    )  # fmt: skip
    options = SimpleNamespace(
        tau_z_i=0.3, tau_i=0.7, gamma_i=3e-5, rff_flag=True, dim_z=2, kernel_x="RFFGaussian",
        kernel_x_options={"rff_dim": 300}, kernel_y="Same", kernel_s="Same", kernel_z="Same",
        kernel_y_options={}, kernel_s_options={}, kernel_z_options={},
    )  # fmt: skip
    largest = {}
    for name, columns in (("class and gender", None), ("class, gender and text", other)):
        solver = solvers["KernelMethodY"](options, "image")
        solver.kernel_x.w = torch.tensor(drawn.weights.T).double()
        solver.kernel_x.b = torch.tensor(drawn.phases).double()
        rows = torch.tensor(data.images)
        given = None if columns is None else torch.tensor(columns)
        made = solver.solver(rows, torch.tensor(labels), torch.tensor(groups), given)
        theirs = (solver.kernel_x(rows) @ made.U).detach().numpy()
        inner = None if columns is None else columns - columns.mean(0)
        theta = problem.theta(labels - labels.mean(0), groups - groups.mean(0), inner, 2)
        ours = drawn.of(data.images) @ theta
        theirs = theirs[:, : ours.shape[1]]
        signs = np.sign((ours * theirs).sum(0))
        worst = np.abs(ours - signs * theirs).max() / np.abs(ours).max()
        largest[f"fairer-clip, encodings by {name}, of the largest entry"] = float(worst)
    return largest


def rlace(there: Repository, data: Data) -> dict[str, float]:
    """The eigenvalues of what the game may hide: cut to 0 and 1, with a given sum."""
    solve = there.functions("rlace.py", SGD=None)["solve_constraint"]
    rng = np.random.default_rng(0)
    worst = 0.0
    for rank in (1, 3):
        drawn = rng.standard_normal((64, 64))
        matrix = drawn + drawn.T
        ours = np.linalg.eigvalsh(fantope(matrix, rank))
        theirs = np.sort(solve(np.linalg.eigvalsh(matrix), d=rank))
        worst = max(worst, _largest(ours, theirs))
    return {"rlace, eigenvalues of the hidden (theirs after 25 bisections)": worst}


def inlp(there: Repository, data: Data) -> dict[str, float]:
    """The projection off five classifiers, each trained on the same rows as ours."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    sklearn_classifier = there.classes("src/classifier.py")
    code = there.functions(
        "src/debias.py", scipy=scipy, tqdm=_Silent, List=list, Dict=dict,
        classifier=SimpleNamespace(**sklearn_classifier),
    )  # fmt: skip
    dim = data.images.shape[1]
    rows = (data.images - data.images.mean(0)) * np.sqrt(dim)
    train, held = train_test_split(
        np.arange(len(rows)), test_size=0.25, random_state=0, stratify=data.codes
    )
    theirs, _, _ = code["get_debiasing_projection"](
        LogisticRegression, {"max_iter": 1000}, 5, dim, True, 0.0,
        rows[train], data.codes[train], rows[held], data.codes[held],
    )  # fmt: skip
    ours = data.fitted("inlp", rounds=5).image(data.images)
    return {"inlp:rounds=5, CelebA images": _largest(ours, data.images @ theirs)}


class _Silent(list):
    """A bar of progress that shows nothing."""

    def set_description(self, _: str) -> None:
        pass


def fair_pca(there: Repository, data: Data) -> dict[str, float]:
    """The projection onto half of the components; theirs does not standardise here, as ours."""
    code = there.functions("src/fair_pca/fair_PCA.py", scipy=scipy, LogisticRegression=None)
    fitted = there.classes(
        "src/fair_pca/fair_PCA.py", scipy=scipy, Pipeline=object,
        **{name: code[name] for name in ("standard_PCA", EIGENPROBLEM)},
    )["FairPCA"](256, False, 0)  # fmt: skip
    fitted.fit(data.images - data.images.mean(0), data.codes)
    components = fitted.transformation_matrix
    ours = data.fitted("fair-pca").image(data.images)
    theirs = data.images @ components @ components.T
    return {"fair-pca, CelebA images": _largest(ours, theirs)}


def pbm(there: Repository, data: Data) -> dict[str, float]:
    """Which images are on a page of 20 for 495 texts, of groups that the images' labels give."""
    import itertools

    code = there.functions("debias_clip_utils.py", itertools=itertools)
    scores = data.texts @ data.images.T
    apart = 0
    for place, row in enumerate(scores):
        theirs = code["fairness_intervention_ranking"](scores, place, data.codes + 1, 20)
        apart += len(set(theirs) ^ set(_page("pbm", row, data.codes, np.array([0.5, 0.5]))))
    return {"pbm, images on 495 pages of 20 by one and not the other": float(apart)}


def fa_ir(there: Repository, data: Data) -> dict[str, float]:
    """How many women each prefix must hold, and the pages of 20 that follow from it."""
    collection = float(data.codes.mean())
    with tempfile.TemporaryDirectory() as place:
        folder = there.unpacked(Path(place))
        sys.path.insert(0, str(folder))
        import fairsearchcore  # pyright: ignore[reportMissingImports]
        from fairsearchcore.models import FairScoreDoc  # pyright: ignore[reportMissingImports]

        sys.path.remove(str(folder))
        # pandas now counts their blocks in floats, of which their keys make no hash
        key: Any = fairsearchcore.fail_prob.LegalAssignmentKey
        key.__hash__ = lambda self: hash(str(vars(self)))
        found = fairsearchcore.Fair(20, 0.5, 0.1)
        tables = {
            share: fairsearchcore.Fair(20, share, 0.1).create_adjusted_mtable()
            for share in (0.5, collection)
        }
        apart = 0
        for row in data.texts @ data.images.T:
            order = np.argsort(-row, kind="stable").tolist()
            items = [FairScoreDoc(i, float(row[i]), bool(data.codes[i])) for i in order]
            theirs = [item.id for item in found.re_rank(items)]
            # a share of next to nothing: the other group is not protected, as in theirs
            ours = _page("fa-ir", row, data.codes, np.array([1e-12, 0.5]))
            apart += sum(one != other for one, other in zip(ours, theirs, strict=True))
    equal, other = (_largest(at_least(20, share, 0.1), table) for share, table in tables.items())
    return {
        "fa-ir:target=equal, women in each prefix of 20": equal,
        "fa-ir:target=equal, places of 495 pages of 20 with another image": float(apart),
        "fa-ir, women in each prefix of 20 (theirs leaves the last place out of its test)": other,
    }


def _page(method: str, scores: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> list[int]:
    """The images on a re-ranker's page of 20, in order, where groups are known."""
    members = [np.flatnonzero(codes == group) for group in range(len(shares))]
    ranked = [rows[np.argsort(-scores[rows], kind="stable")] for rows in members]
    rule: Any = eq.methods.create(method, k=20)
    places = rule.places([scores[rows] for rows in ranked], shares)
    page = {}
    for group, rows in enumerate(ranked):
        for turn, spot in enumerate(places[group]):
            page[int(spot)] = int(rows[turn])
    return [page[spot] for spot in sorted(page)]


def ltc(there: Repository, data: Data) -> dict[str, float]:
    """A small CLIP of random weights, in float64: parts, heads that are found, edited rows."""
    import torch

    module, pixels = _small_clip()
    seen = _Watched(module)
    rows, parts = module.rows_and_parts(module.every_head, pixels)
    layers, heads = module.shape
    ours = parts.reshape(len(rows), layers, heads, -1)
    logger = there.classes("prs_hook.py", torch=torch, defaultdict=dict)["PRSLogger"](
        seen.as_theirs(), "cpu", spatial=False
    )
    for written in seen.written():
        logger.compute_attentions_non_spatial(written)
    for written in seen.perceptrons():
        logger.compute_mlps(written)
    logger.post_ln_mean, logger.post_ln_std = seen.moments()
    attentions, perceptrons = logger.finalize(seen.features())
    code = there.functions("utils/eval_utils.py", torch=torch)
    ablate = there.functions("utils/misc.py", torch=torch)["ablate"]
    rng = np.random.default_rng(0)
    # two texts between which the rows vary most
    centre = rows.double().mean(0).numpy()
    away = np.linalg.svd(rows.double().numpy() - centre)[2][0]
    away -= centre * (away @ centre) / (centre @ centre)
    texts = unit(np.stack([centre + away, centre - away]))
    groups = rng.integers(0, 2, len(rows))
    picked, decisions = _decided(ours, attentions, perceptrons, texts, groups)
    members = _of_worst_groups(decisions, groups)
    counts = []
    for kept in (decisions.right, ~decisions.right):
        places = torch.tensor([i for i in members.tolist() if kept[i]])
        counts.append(
            code["get_counts"](
                attentions, perceptrons, torch.tensor(picked), torch.tensor(texts.T), places
            )
        )
    theirs = set(code["get_impt_heads"](*counts))
    found = behind_errors(decisions, groups, layers * heads)
    edited = ablate(attentions, [(1, 2), (0, 1)]).sum((1, 2)) + perceptrons.sum(1)
    means = ours.mean(0)[[1, 0], [2, 1]]
    change = ours[:, [1, 0], [2, 1]] - means
    return {
        "ltc, what 12 heads of a small CLIP add to 400 rows": _largest(ours, attentions),
        f"ltc, heads behind errors by one and not the other (of {len(theirs)})": float(
            len({module.every_head[place] for place in found} ^ theirs)
        ),
        "ltc, 400 rows with two heads edited (ours in float32)": _largest(
            rows.double() - change.sum(1), edited
        ),
    }


def _small_clip() -> tuple[Any, Any]:
    """A CLIP of three layers of four heads, taken apart, and pixels of 400 images."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    from equipoise.encoders._head_module import HeadParts
    from equipoise.encoders._hf import _Features

    torch.manual_seed(0)
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    model = CLIPModel(CLIPConfig(vision_config=vision, projection_dim=16)).double().eval()
    for parameter in model.requires_grad_(False).vision_model.parameters():
        parameter.normal_(std=0.15)
    return HeadParts(_Features(model, None)), torch.randn(400, 3, 32, 32, dtype=torch.float64)


class _Watched:
    """What their code logs of a vision tower, read by hooks of our own."""

    def __init__(self, module: Any):
        self.vision, self.projection = module.vision, module.projection
        self.kept: dict[Any, Any] = {}
        self.blocks = list(self.vision.encoder.layers)
        for number, block in enumerate(self.blocks):
            block.self_attn.out_proj.register_forward_pre_hook(self._before(number, "heads"))
            block.mlp.register_forward_hook(self._after(number))
        self.vision.pre_layrnorm.register_forward_hook(self._after(-1))
        self.vision.post_layernorm.register_forward_pre_hook(self._before(-1, "pooled"))

    def _before(self, number: int, what: str) -> Callable[..., None]:
        def keep(module: Any, given: Any) -> None:
            self.kept.setdefault((what, number), given[0])

        return keep

    def _after(self, number: int) -> Callable[..., None]:
        def keep(module: Any, given: Any, out: Any) -> None:
            self.kept.setdefault(("out", number), out)

        return keep

    def written(self) -> list[Any]:
        """What heads write (n, tokens, heads, width), without the bias, by layer."""
        import torch

        found = []
        for number, block in enumerate(self.blocks):
            heads = block.self_attn.num_heads
            states = self.kept["heads", number].unflatten(-1, (heads, -1))
            weights = block.self_attn.out_proj.weight.unflatten(-1, (heads, -1))
            found.append(torch.einsum("nthk,whk->nthw", states, weights))
        return found

    def perceptrons(self) -> list[Any]:
        return [self.kept["out", number] for number in range(-1, len(self.blocks))]

    def moments(self) -> tuple[Any, Any]:
        pooled = self.kept["pooled", -1]
        spread = pooled.var(-1, keepdim=True, correction=0) + self.vision.post_layernorm.eps
        return pooled.mean(-1, keepdim=True), spread.sqrt()

    def features(self) -> Any:
        return self.projection(self.vision.post_layernorm(self.kept["pooled", -1]))

    def as_theirs(self) -> Any:
        """The names that their code has for the same weights."""
        blocks = [
            SimpleNamespace(attn=SimpleNamespace(out_proj=block.self_attn.out_proj))
            for block in self.blocks
        ]
        return SimpleNamespace(
            visual=SimpleNamespace(
                transformer=SimpleNamespace(resblocks=blocks),
                ln_post=self.vision.post_layernorm,
                proj=self.projection.weight.T,
            )
        )


def _decided(
    ours: Any, attentions: Any, perceptrons: Any, texts: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, Decisions]:
    """What is predicted, as their sums have it, and the decisions of our parts.

    The truth is such that one head errs about one of the groups.
    """
    rows = (attentions.sum((1, 2)) + perceptrons.sum(1)).numpy()
    picked = (rows @ texts.T).argmax(1)
    parts = ours.flatten(1, 2).numpy()
    found = []
    for row, added, one in zip(rows, parts, picked.tolist(), strict=True):
        found.append(decide(row, added, texts, one))
    predicted, loudest = np.array(found).T
    errs = (loudest == np.bincount(loudest).argmax()) & (groups == 1)
    return picked, Decisions(predicted, np.where(errs, 1 - predicted, predicted), loudest)


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
    ("SprocketLab/roboshot", roboshot),
    ("HoinJung/Unified-Debiaisng-VLM-SFID", sfid),
    ("human-analysis/FairerCLIP", fairer_clip),
    ("shauli-ravfogel/rlace-icml", rlace),
    ("shauli-ravfogel/nullspace_projection", inlp),
    ("amazon-science/fair-pca", fair_pca),
    ("timqqt/Fair_Text_based_Image_Retrieval", pbm),
    ("fair-search/fairsearch-fair-python", fa_ir),
    ("wj210/CLIP_LTC", ltc),
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

This page runs our methods and the authors' own code on the same input. Unless a row says otherwise, that is real embeddings: CelebA's thousand images and 495 class names by OpenAI CLIP ViT-B/32, with the prototypes "a Man", "a Boy" and "a Woman", "a Girl". `python -m scripts.beside FOLDER` reads functions from clones of their repositories in FOLDER, runs them, and
writes this page. None of their code is in ours. "Largest difference" is the largest over all entries of all rows, the difference of the metric, or a number of things that differ.

"""
TAIL = """
Where the authors' code computes in float32, the difference is float32's rounding. What we had to give their code: *sfid* and ours share the halves of the images and the seed of the forest, because theirs has none; *fairer-clip* shares our random features, and its solver runs on the processor in float64; the sign of an eigenvector is free.
*inlp* shares our rows and halves, and scikit-learn stops a classifier at a tolerance, which is where its difference comes from. *fair-pca* had centred rows and did not standardise. *pbm*'s code begins every round with the same group, ours with the better image, so the images of a page are compared and not their order.
*fa-ir*: the library's test leaves the last place of a page out, so for some shares its table is stricter than alpha allows; ours counts every place. *ltc* ran on a CLIP of three layers with random weights, because no weights of a real one are here. *rlace* is a game of random batches, so only its exact step is compared; a test shows how near its end the known answer is.

These have no row:

| method | why |
|---|---|
NO_ROW
"""
NO_ROW = {
    "none": "there is nothing to compare",
    "adapted": "published here first",
    "balanced": "published here first",
    "interleave": "quotas that every book on ranking has; no code of its own",
    "det-const-sort": "its authors published no code; a test checks every prefix",
    "splince": "the paper links to code that could not be had; tests check its two equations",
    "spd": "the repository that the paper names could not be had",
    "dear": "no code was published",
    "saner": "no code was published",
    "prism": "trained: the tests check its loss, and [methods](methods.md) says where ours differs",
    "prompt-array": "trained, in the same way",
    "joint-vl": "trained, in the same way",
}


def page() -> str:
    """The page, from the file."""
    head = "| method | input, and what is compared | repository | commit | largest difference |"
    lines = [head, "|---" * 5 + "|"]
    for row in json.loads(MEASURED.read_text())["rows"]:
        method, compared = row["what"].split(", ", 1)
        lines.append(
            f"| {method} | {compared} | {row['repository']} | {row['commit']}"
            f" | {row['largest']:.1e} |"
        )
    without = [f"| {method} | {why} |" for method, why in NO_ROW.items()]
    return HEAD + "\n".join(lines) + "\n" + TAIL.replace("NO_ROW", "\n".join(without))


def compared(rows: list[dict[str, Any]]) -> set[str]:
    """Return the names of what rows compare: methods, metrics and an edit of heads."""
    return {row["what"].split(", ")[0].split(":")[0] for row in rows}


def require_every_method() -> None:
    """Stop if a method is neither compared nor excused."""
    rows = json.loads(MEASURED.read_text())["rows"]
    if missing := set(eq.methods.names()) - compared(rows) - set(NO_ROW):
        raise SystemExit(f"{', '.join(sorted(missing))}: compare it, or say in NO_ROW why not")


def main() -> None:
    given = [Path(word) for word in sys.argv[1:]]
    if not given:
        raise SystemExit(__doc__)
    measure(given[0], given[1] if len(given) > 1 else Path("../shared/data/embeddings"))
    require_every_method()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
