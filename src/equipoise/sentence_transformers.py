"""A module for sentence-transformers that debiases, and an evaluator that measures skew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._debiasing import debias
from equipoise._space import AttributeSpace
from equipoise.errors import ArtefactError, InputError, MissingExtraError
from equipoise.metrics import max_skew

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.base.modules import Module
except ImportError:
    raise MissingExtraError(
        "equipoise.sentence_transformers",
        "sentence-transformers 6 or newer",
        "sentence-transformers",
    ) from None

__all__ = ["Debias", "SkewEvaluator", "load"]

FILE = "space.safetensors"
ROWS = "sentence_embedding"


class Debias(Module):
    """A module that debiases what the modules before it give: ``model.append(Debias(space))``.

    It is saved with the model, as one file of ours; ``load`` reads the model back. kappa: the
    space's own by default.
    """

    def __init__(self, space: AttributeSpace | str | os.PathLike[str], kappa: float | None = None):
        super().__init__()
        if isinstance(space, str | os.PathLike):
            space = AttributeSpace.load(space)
        if not isinstance(space, AttributeSpace):
            raise InputError(
                f"Debias takes an AttributeSpace or its file, and {type(space).__name__} was given"
            )
        self.space: AttributeSpace = space if kappa is None else space.with_kappa(kappa)

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Return the features with debiased unit rows."""
        if ROWS not in features:
            raise InputError(
                f"Debias found no {ROWS!r}; append it last, after the pooling of a model"
            )
        rows = features[ROWS]
        if rows.shape[-1] != self.space.dim:
            raise InputError(
                f"the model gives {rows.shape[-1]} dimensions and the space has {self.space.dim};"
                " fit one with this model: eq.load_encoder('st:...')"
            )
        # A row of zeros has no direction, and a batch must not fail for it.
        features[ROWS] = debias(rows, self.space, on_invalid="keep")
        return features

    def get_embedding_dimension(self) -> int:
        """Return the length of a row."""
        return self.space.dim

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the space into the module's folder."""
        self.space.save(Path(output_path) / FILE)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Debias:
        """Read the module from its folder, here or on the hub."""
        known = ("token", "cache_folder", "revision", "local_files_only")
        where = {name: options[name] for name in known if name in options}
        path = cls.load_file_path(model_name_or_path, FILE, subfolder, **where)
        if path is None:
            raise ArtefactError(
                f"{model_name_or_path} has no {FILE} in {subfolder!r}; save the model again"
            )
        return cls(path)

    def __repr__(self) -> str:
        return f"Debias({self.space!r})"


def load(name_or_folder: str | os.PathLike[str], **options: Any) -> SentenceTransformer:
    """Load a model that holds a ``Debias``, without ``trust_remote_code``.

    sentence-transformers itself imports no class of another package. Here ours, which is imported
    already, stands in for its name, and any other class is refused as ever. The options are those
    of ``SentenceTransformer``.
    """
    if options.pop("trust_remote_code", False):
        raise InputError("trust_remote_code is not legal here: this model needs none; leave it out")
    loader = getattr(SentenceTransformer, "_load_with_module_classes", None)
    if loader is None:
        raise MissingExtraError(
            "loading a Debias", "sentence-transformers 6.2 or newer", "sentence-transformers"
        )
    return loader(os.fspath(name_or_folder), {_OURS: Debias}, **options)


_OURS = f"{Debias.__module__}.{Debias.__qualname__}"


class SkewEvaluator(BaseEvaluator):
    """An evaluator of sentence-transformers that measures MaxSkew@m: lower is better.

    queries: texts. items: images or texts to rank. groups: the group of each item. m: how many of
    the best are looked at. The figure says how far the groups' shares among them differ from those
    among all items, as ``eq.metrics.max_skew`` does.
    """

    def __init__(
        self,
        queries: Sequence[str],
        items: Sequence[Any],
        groups: Sequence[Any],
        *,
        m: int = 100,
        name: str = "",
    ):
        super().__init__()
        if len(groups) != len(items):
            raise InputError(
                f"there are {len(groups)} groups for {len(items)} items; pass one for each"
            )
        if not 1 <= m <= len(items):
            raise InputError(f"m={m} is not legal; pass a whole number from 1 to {len(items)}")
        self.queries: list[str] = list(queries)
        self.items: list[Any] = list(items)
        self.groups: Sequence[Any] = groups
        self.m: int = m
        self.name: str = name
        self.greater_is_better: bool = False
        self.primary_metric: str = f"max_skew@{m}"

    def __call__(
        self,
        model: Any,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Return the mean MaxSkew of the queries, by its name."""
        queries = model.encode(self.queries, normalize_embeddings=True, convert_to_numpy=True)
        items = model.encode(self.items, normalize_embeddings=True, convert_to_numpy=True)
        scores = np.asarray(queries @ items.T, np.float64)
        found = max_skew(scores, sensitive_features=self.groups, m=self.m)
        metrics = {f"max_skew@{self.m}": float(found)}
        return self.prefix_name_to_metrics(metrics, self.name)
