"""What a method does to the states of a prompt's tokens.

A method is fitted in the space of one part of the conditioning, and then edits states (k, width) of
any length. Methods declare by ``generation`` that they can; how, goes by the operator:

- by default each state's direction is edited and its length kept;
- the closed form debiases each state in the operator's space, and keeps its length;
- ``orth-proj`` and ``orth-cali`` apply the linear map itself, ``P h``, as their authors do, so
  that states get shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import singledispatch
from typing import Any

import numpy as np

from equipoise import kernels, methods
from equipoise._debiasing import debias
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.generation._unet import FeatureSfid
from equipoise.kernels._recipe import PROJECT, LowRank
from equipoise.methods import FitContext, Operator
from equipoise.methods._closed_form import ClosedFormOperator
from equipoise.methods._orth_cali import OrthCaliOperator
from equipoise.methods._orth_proj import OrthProjOperator

NONE, CLOSED_FORM = "none", "closed-form"
# Methods that can edit the features of a UNet instead of the states of prompts, with on="unet".
IN_THE_UNET = {"sfid": FeatureSfid}

StateEdit = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Edit:
    """A fitted operator, and what it does to the states (k, width) of a prompt."""

    operator: Operator
    apply: StateEdit


def require_method(name: str) -> None:
    """Raise for a method that does not declare how generation begins with it."""
    if name in methods.names() and methods.find(name).generation is not None:
        return
    legal = [each for each in methods.names() if methods.find(each).generation is not None]
    raise InputError(f"method={name!r} does not edit generation; pass one of {', '.join(legal)}")


def create(name: str, kappa: float | None, params: Mapping[str, Any]) -> Any:
    """Return the method with generation's defaults, checked.

    With ``on="unet"`` it is the method that edits the UNet, which is no method of texts.
    """
    require_method(name)
    if kappa is not None and "kappa" not in methods.defaults(name):
        raise InputError(
            f"kappa={kappa} was given, and {name} has none; leave `kappa` out, or pass"
            f" method={CLOSED_FORM!r}"
        )
    given = dict(params)
    if name in IN_THE_UNET:
        on = given.pop("on", "text")
        if on == "unet":
            return _create_in_the_unet(name, given)
        if on != "text":
            raise InputError(f'on={on!r} is not legal; {name} works on "text" or in the "unet"')
    if kappa is not None:
        given.setdefault("kappa", kappa)
    defaults = methods.find(name).generation or {}
    return methods.create(name, **{**defaults, **given})


def _create_in_the_unet(name: str, params: Mapping[str, Any]) -> FeatureSfid:
    method = IN_THE_UNET[name]
    legal = [field.name for field in fields(method)]
    for param in params:
        if param not in legal:
            raise InputError(
                f"{name} in the UNet has no parameter {param!r}; it has {', '.join(legal)}"
            )
    return method(**params)


def fit(method: methods.Method, context: FitContext) -> Edit:
    """Return the edit for one part, whose encoder the context holds."""
    return edit_with(method.fit(context))


def edit_with(operator: Operator) -> Edit:
    """Return the edit that a fitted operator makes."""
    return Edit(operator, state_edit(operator))


@singledispatch
def state_edit(operator: Operator) -> StateEdit:
    """Return how an operator edits states: their directions, their lengths kept."""

    def apply(states: Any, prompt: str) -> Any:
        return operator.text(states) * _lengths(states)

    return apply


@state_edit.register
def _(operator: ClosedFormOperator) -> StateEdit:
    """Debias in the operator's space; in the prompt's own, where each prompt has one."""

    def apply(states: Any, prompt: str) -> Any:
        space = operator.space
        if not isinstance(space, AttributeSpace):
            space = space[prompt]
        return debias(states, space, norm="keep", on_invalid="keep")

    return apply


@state_edit.register
def _(operator: OrthProjOperator) -> StateEdit:
    """Project off the operator's basis."""
    space = operator.space
    if not isinstance(space, AttributeSpace):
        raise InputError("orth-proj edits generation in one shared space; fit it with one")
    return _linear(LowRank.projection(space.basis))


@state_edit.register
def _(operator: OrthCaliOperator) -> StateEdit:
    """Apply the operator's map of texts."""
    return _linear(operator.maps["text"])


def _linear(low_rank: LowRank) -> StateEdit:
    def apply(states: Any, prompt: str) -> Any:
        mapped = kernels.debias(states, low_rank, PROJECT, "raw")
        return mapped * _lengths(states)

    return apply


def _lengths(states: Any) -> Any:
    """Return the lengths (k, 1) of states, in their own dtype.

    They are squared in a wider one, since half precision would overflow.
    """
    if hasattr(states, "detach"):
        return states.float().norm(dim=-1, keepdim=True).to(states.dtype)
    return np.linalg.norm(states, axis=-1, keepdims=True).astype(states.dtype)
