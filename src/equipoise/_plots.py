"""Figures of what was measured, with matplotlib where it is there: arrays in, axes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError, MissingExtraError
from equipoise.geometry import Float64

PAPER = 1.0  # kappa of the paper
ACROSS = 10  # pictures that stand side by side
GAP, BAR = 4, 8  # pixels between pictures, and of the line below each
INCHES = 0.8  # of a picture


def axes_for(axes: Any, size: tuple[float, float] = (5.0, 3.6)) -> Any:
    """Return the axes given, or those of a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("a plot", "matplotlib", "plot") from None
    if axes is not None and not hasattr(axes, "imshow"):
        raise InputError(
            f"axes={axes!r} is not legal; pass axes of matplotlib, such as pyplot.subplots()[1]"
        )
    if axes is not None:
        return axes
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def draw_frontier(axes: Any, kappa: Float64, leakage: Float64, loss: Float64, n: int) -> Any:
    """Draw mean loss over mean leakage, with kappa 0, the paper's and infinity named."""
    axes = axes_for(axes)
    axes.plot(leakage, loss, color="C0")
    if len(kappa):
        for wanted in (0.0, PAPER, np.inf):
            place = _nearest(kappa, wanted)
            if np.isclose(kappa[place], wanted, rtol=0.05):
                axes.plot(leakage[place], loss[place], "o", color="C0")
                label = f"kappa {wanted:g}"
                axes.annotate(
                    label, (leakage[place], loss[place]), (6, 4), textcoords="offset points"
                )
    axes.set_xlabel("mean leakage")
    axes.set_ylabel("mean self-utility loss")
    axes.set_title(f"Frontier of {n:,} rows")
    axes.margins(x=0.15, y=0.12)
    return axes


def _nearest(kappa: Float64, wanted: float) -> int:
    if np.isinf(wanted):
        return int(np.argmax(kappa))
    return int(np.argmin(np.abs(kappa - wanted)))


def draw_histograms(axes: Any, values: Mapping[str, Float64], label: str, title: str) -> Any:
    """Draw one histogram per name over shared bins; values that are not finite are left out."""
    axes = axes_for(axes)
    finite = {name: given[np.isfinite(given)].ravel() for name, given in values.items()}
    everything = np.concatenate(list(finite.values()))
    if everything.size:
        bins = np.histogram_bin_edges(everything, bins=40)
        for i, (name, given) in enumerate(finite.items()):
            axes.hist(given, bins=bins, alpha=0.6, label=name, color=f"C{i}")
        axes.legend()
    axes.set_xlabel(label)
    axes.set_ylabel("rows")
    axes.set_title(title)
    return axes


def draw_intervals(
    axes: Any,
    names: Sequence[str],
    values: Sequence[tuple[float, float, float]],
    title: str,
    label: str,
) -> Any:
    """Draw a dot and a 95 % interval per name. values: (value, low, high)."""
    axes = axes_for(axes, (5.0, 1.2 + 0.4 * len(names)))
    places = np.arange(len(names))[::-1]
    for place, (value, low, high) in zip(places, values, strict=True):
        axes.plot([low, high], [place, place], color="C0")
        axes.plot(value, place, "o", color="C0")
    axes.set_yticks(places, names)
    axes.set_ylim(-0.5, len(names) - 0.5)
    axes.set_xlabel(label)
    axes.set_title(title)
    return axes


def draw_pictures(
    axes: Any,
    pictures: Sequence[np.ndarray],
    groups: Sequence[str] | None,
    known: Sequence[str],
    title: str,
) -> Any:
    """Draw square pictures (side, side, 3) in rows, from the left and from the top.

    groups: one per picture, each of ``known``. A line below each picture has the colour of its
    group, and a legend says how many pictures each group has, most frequent first.
    """
    side = pictures[0].shape[0] if pictures else 1
    across = min(ACROSS, max(1, len(pictures)))
    down = -(-len(pictures) // across)
    axes = axes_for(axes, (INCHES * across, INCHES * 1.1 * down + 0.7))
    colours = _group_colours(known)
    height = side + BAR + GAP
    sheet = np.full((max(1, down) * height, across * (side + GAP), 3), 255, np.uint8)
    for i, picture in enumerate(pictures):
        top, left = i // across * height, i % across * (side + GAP)
        sheet[top : top + side, left : left + side] = picture
        if groups is not None:
            sheet[top + side : top + side + BAR, left : left + side] = colours[groups[i]]
    axes.imshow(sheet)
    axes.set_axis_off()
    axes.set_title(title, loc="left")
    _legend(axes, colours, groups or ())
    return axes


def _group_colours(known: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a colour for each group; two figures that know the same groups agree."""
    from matplotlib.colors import to_rgb

    colours = {}
    for i, name in enumerate(sorted(set(known))):
        colours[name] = np.array(to_rgb(f"C{i % 10}")) * 255
    return colours


def _legend(axes: Any, colours: Mapping[str, np.ndarray], groups: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    if not colours:
        return
    counts = {name: list(groups).count(name) for name in colours}
    keys = []
    for name in sorted(counts, key=lambda name: -counts[name]):
        label = f"{name} {counts[name]} of {len(groups)}"
        keys.append(Patch(color=tuple(colours[name] / 255), label=label))
    axes.legend(
        handles=keys, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(keys), frameon=False
    )
