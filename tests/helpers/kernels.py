"""eq.debias through each kernel."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from tests.helpers.common import component


def with_numba(e, space, **options):
    assert eq.kernels.which(e) == "numba"
    return eq.debias(e, space, **options)


def with_numpy(e, space, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_NO_NUMBA", "1")
        assert eq.kernels.which(e) == "numpy"
        return eq.debias(e, space, **options)


def with_torch(e, space, **options):
    torch = component("torch")
    tensor = torch.tensor(e, requires_grad=True)
    assert eq.kernels.which(tensor) == "torch"
    return eq.debias(tensor, space, **options).detach().numpy()


def in_float64(wanted):
    """A context in which jax has float64, or has it not; older ones keep it elsewhere."""
    jax = component("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(wanted)
    from jax.experimental import enable_x64

    return enable_x64(wanted)


def with_jax(e, space, **options):
    jax = component("jax")
    with in_float64(e.dtype == np.float64):
        array = jax.numpy.asarray(e)
        assert eq.kernels.which(array) == "jax"
        return np.asarray(eq.debias(array, space, **options))
