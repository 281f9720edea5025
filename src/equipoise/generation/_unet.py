"""SFID inside the UNet, as its authors run it, at every step of the denoising.

Channels by which a forest tells the groups are overwritten. Features are read and written after the
last down block and after the middle one. Two things differ from the authors' code, on purpose:
statistics are of the conditional half and of all steps, and only that half is edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np

from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.methods._fitting_rows import dimensions, require_groups
from equipoise.methods._sfid import FEW, Sfid
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._stated_groups import explicit_groups

SITES = ("down", "mid")
_BATCH = 4


@dataclass(frozen=True)
class FeatureSfid:
    """SFID in the UNet of a pipeline.

    k: channels of each site, or, below 1, a share of them. fill: "group-means" writes what the
    features are where the forest is sure of a group: the one that the prompt names, else one drawn
    by the picture's own noise; "low-confidence" writes the mean where it is unsure. steps: of the
    denoising that features are fitted on; the pipeline's own by default. tau, trees, held_out: as
    in ``sfid``.
    """

    k: float = 50
    fill: Literal["group-means", "low-confidence"] = "group-means"
    tau: float = 0.7
    trees: int = 100
    held_out: float = 0.25
    steps: int | None = None

    def fit(self, pipe: Any, attribute: Attribute, book: PromptBook, seed: int) -> FeatureEdit:
        """Fit on pictures drawn from the book's anchors, one each, which state their group."""
        if self.fill not in ("group-means", "low-confidence"):
            raise InputError(
                f'fill={self.fill!r} is not legal; pass "group-means" or "low-confidence"'
            )
        modules = _sites(pipe)
        texts, groups = [], []
        for prompt in book.prompts:
            for i, group in enumerate(attribute.groups):
                texts.append(book[prompt][group].anchor)
                groups.append(i)
        codes = np.array(groups)
        counts = np.bincount(codes, minlength=len(attribute.groups))
        require_groups(
            "sfid", counts, attribute.groups, FEW, "anchors", "take a book with more prompts"
        )
        features = self._features(pipe, modules, texts, seed)
        fills = {site: self._fill(rows, codes, seed) for site, rows in features.items()}
        return FeatureEdit(pipe.unet, modules, attribute, fills)

    def _fill(
        self, rows: np.ndarray, codes: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels (k,) to overwrite, and their values (groups, k).

        The values are the same for all groups where they are those of unsure pictures.
        """
        if (k := dimensions(self.k, rows.shape[1])) is None:
            raise InputError(
                f"k={self.k} is not legal; it is how many of the {rows.shape[1]} channels are"
                " overwritten, or a share below 1"
            )
        sfid = Sfid(tau=self.tau, trees=self.trees, held_out=self.held_out)
        groups = range(int(codes.max()) + 1)
        if self.fill == "low-confidence":
            places, values = sfid.imputation(rows, codes, k, seed)
            return places, np.stack([values for _ in groups])
        places, rest, probabilities = sfid.forest(rows, codes, k, seed)
        read, sure = probabilities.argmax(1), probabilities.max(1) >= self.tau
        chosen = [rest[sure & (read == group)] for group in groups]
        if not all(map(len, chosen)):
            raise InputError(
                f"the forest is sure of no held-out picture of some group (tau={self.tau}); lower"
                " tau, or take a larger book"
            )
        return places, np.stack([rows[which][:, places].mean(0) for which in chosen])

    def _features(
        self, pipe: Any, modules: dict[str, Any], texts: list[str], seed: int
    ) -> dict[str, np.ndarray]:
        """Return site -> (n, channels): the mean over places and steps, of the conditional half."""
        import torch

        found: dict[str, list[Any]] = {site: [] for site in modules}
        options = {} if self.steps is None else {"num_inference_steps": self.steps}
        with progress("features", len(texts)) as advance:
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                seen: dict[str, list[Any]] = {site: [] for site in modules}
                handles = [
                    module.register_forward_hook(_reader(seen[site], len(batch)))
                    for site, module in modules.items()
                ]
                try:
                    noise = [
                        torch.Generator("cpu").manual_seed(seed + start + i)
                        for i in range(len(batch))
                    ]
                    pipe(prompt=batch, generator=noise, output_type="latent", **options)
                finally:
                    for handle in handles:
                        handle.remove()
                for site, steps in seen.items():
                    found[site].append(torch.stack(steps).mean(0))
                advance(len(batch))
        return {site: torch.cat(rows).cpu().double().numpy() for site, rows in found.items()}


class FeatureEdit:
    """Hooks on a UNet that overwrite channels of the conditional half.

    ``begin`` says whose rows come next.
    """

    def __init__(
        self,
        unet: Any,
        modules: dict[str, Any],
        attribute: Attribute,
        fills: dict[str, tuple[np.ndarray, np.ndarray]],
    ):
        self.unet, self.modules, self.attribute, self.fills = unet, modules, attribute, fills
        self._handles: list[Any] = []
        self._named: list[str | None] = []
        self._kept = np.zeros(0, bool)
        self._codes: np.ndarray | None = None

    def install(self) -> None:
        """Put the hooks on."""
        self._handles = [self.unet.register_forward_pre_hook(self._draw, with_kwargs=True)]
        for site, module in self.modules.items():
            self._handles.append(
                module.register_forward_hook(
                    lambda m, inputs, output, site=site: self._overwrite(site, output)
                )
            )

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def begin(self, prompts: Sequence[str], kept: Sequence[bool]) -> None:
        """Begin a denoising of these prompts, one per picture.

        Pictures that are kept are left alone; all are, where there are no prompts.
        """
        named = [explicit_groups(prompt, self.attribute) for prompt in prompts]
        self._named = [groups[0] if len(groups) == 1 else None for groups in named]
        self._kept, self._codes = np.array(kept), None

    def _draw(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Note the group of each picture at the first step.

        It is the group that the prompt names, or one drawn by the picture's noise.
        """
        if self._codes is not None or not self._named:
            return
        noise = kwargs["sample"] if "sample" in kwargs else args[0]
        groups = self.attribute.groups
        rows = noise[-len(self._named) :].detach().float().cpu().numpy()
        drawn = [crc32(row.tobytes()) % len(groups) for row in rows]
        for i, name in enumerate(self._named):
            if name is not None:
                drawn[i] = groups.index(name)
        self._codes = np.array(drawn)

    def _overwrite(self, site: str, output: Any) -> Any:
        import torch

        if self._codes is None or self._kept.all():
            return None
        maps = _maps(output).clone()
        if len(maps) not in (len(self._codes), 2 * len(self._codes)):
            raise InputError(
                f"the UNet works on {len(maps)} rows for {len(self._codes)} pictures; sfid in the"
                ' UNet knows plain and classifier-free guidance alone, so pass on="text"'
            )
        first = len(maps) - len(self._codes)
        places, values = self.fills[site]
        channels = torch.as_tensor(places, device=maps.device)
        for i in np.flatnonzero(~self._kept).tolist():
            maps[first + i, channels] = torch.as_tensor(
                values[self._codes[i]], dtype=maps.dtype, device=maps.device
            )[:, None, None]
        return (maps, *output[1:]) if isinstance(output, tuple) else maps


def _sites(pipe: Any) -> dict[str, Any]:
    unet = getattr(pipe, "unet", None)
    middle = getattr(unet, "mid_block", None)
    if unet is None or middle is None or not getattr(unet, "down_blocks", None):
        raise InputError(
            f"{type(pipe).__name__} has no UNet with a middle block, which sfid edits with"
            ' on="unet"; pass on="text"'
        )
    return dict(zip(SITES, (unet.down_blocks[-1], middle), strict=True))


def _reader(seen: list[Any], pictures: int) -> Any:
    """Return a hook that notes the channel means (pictures, channels) of the conditional half.

    That half comes last.
    """

    def note(module: Any, inputs: Any, output: Any) -> None:
        seen.append(_maps(output)[-pictures:].float().mean((2, 3)))

    return note


def _maps(output: Any) -> Any:
    """Return the feature maps (n, channels, height, width) of a block's output."""
    return output[0] if isinstance(output, tuple) else output
