"""What a method does to the states of a prompt: fitted in a part's own space, then a function of
states (k, width) of any length.

- ``closed-form``: each state's direction is debiased and its length kept.
- ``orth-proj``, ``orth-cali``: the linear map itself, ``P h``, as their authors apply it, so that
  states get shorter.
- ``sfid``: coordinates of each state's direction overwritten, its length kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from equipoise import kernels, methods
from equipoise._debiasing import debias
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.generation._unet import FeatureSfid
from equipoise.kernels._recipe import PROJECT, LowRank
from equipoise.methods import FitContext, Operator

NONE, CLOSED_FORM = "none", "closed-form"
DEFAULTS: dict[str, dict[str, Any]] = {  # where generation differs from the method's own defaults
    NONE: {},
    CLOSED_FORM: {"modality": "text"},
    "orth-proj": {},
    "orth-cali": {"lam": 500.0},
    "sfid": {"modality": "text"},
}


@dataclass(frozen=True)
class Edit:
    """A fitted operator, and what it does to the states (k, width) of a prompt."""

    operator: Operator
    apply: Callable[[Any, str], Any]


def require_method(name: str) -> None:
    """Raise for a method that is not one of generation's."""
    if name not in DEFAULTS:
        raise InputError(
            f"method={name!r} is none of generation's; pass one of {', '.join(DEFAULTS)}"
        )


def create(name: str, kappa: float | None, params: Mapping[str, Any]) -> Any:
    """The method with generation's defaults, checked; SFID in the UNet, which is no method of
    texts, with ``on="unet"``.
    """
    require_method(name)
    if kappa is not None and name != CLOSED_FORM:
        raise InputError(
            f"kappa={kappa} was given, and {name} has none; it is {CLOSED_FORM}'s, so leave it away"
        )
    given = DEFAULTS[name] | ({} if kappa is None else {"kappa": kappa}) | dict(params)
    if name == "sfid" and (on := given.pop("on", "text")) != "text":
        return _feature_sfid(str(on), params)
    return methods.create(name, **given)


def _feature_sfid(on: str, params: Mapping[str, Any]) -> FeatureSfid:
    if on != "unet":
        raise InputError(f'on={on!r} is not legal; sfid works on "text" or in the "unet"')
    given, legal = (
        {key: value for key, value in params.items() if key != "on"},
        [field.name for field in fields(FeatureSfid)],
    )
    if unknown := [name for name in given if name not in legal]:
        raise InputError(
            f"sfid in the UNet has no parameter {unknown[0]!r}; it has {', '.join(legal)}"
        )
    return FeatureSfid(**given)


def fit(method: methods.Method, context: FitContext) -> Edit:
    """The edit for one part, whose encoder the context holds."""
    operator = method.fit(context)
    if method.name == CLOSED_FORM:
        return in_space(operator)
    if method.name == "orth-proj":
        return Edit(operator, _linear(LowRank.projection(operator.space.basis)))  # pyright: ignore[reportAttributeAccessIssue]
    if method.name == "orth-cali":
        return Edit(operator, _linear(operator.maps["text"]))  # pyright: ignore[reportAttributeAccessIssue]
    return Edit(operator, lambda states, prompt: operator.text(states) * _lengths(states))


def in_space(operator: Any) -> Edit:
    """The closed form in the operator's space; in the prompt's own, where there is one a prompt."""

    def apply(states: Any, prompt: str) -> Any:
        space = (
            operator.space if isinstance(operator.space, AttributeSpace) else operator.space[prompt]
        )
        return debias(states, space, norm="keep", on_invalid="keep")

    return Edit(operator, apply)


def _linear(low_rank: LowRank) -> Callable[[Any, str], Any]:
    return lambda states, prompt: (
        kernels.debias(states, low_rank, PROJECT, "raw")[0] * _lengths(states)
    )


def _lengths(states: Any) -> Any:
    """(k, 1), in the states' own dtype; squared in a wider one, where half width would overflow."""
    if hasattr(states, "detach"):
        return states.float().norm(dim=-1, keepdim=True).to(states.dtype)
    import numpy as np

    return np.linalg.norm(states, axis=-1, keepdims=True).astype(states.dtype)
