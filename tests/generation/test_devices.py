"""Edits of a pipeline make their numbers on the GPU where its tensors lie.

The tensors are torch's fake ones: they hold no numbers and need no GPU, but know that they lie on
one, and refuse to meet a tensor of the CPU.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from equipoise.generation._edits import _lengths
from equipoise.generation._states_towards import _like
from equipoise.generation._treatments.fair_diffusion import FairDiffusion, SemanticGuidance
from equipoise.generation._treatments.uce import LayerEdit
from tests.helpers.common import component

torch = component("torch")


@pytest.fixture
def on_gpu():
    """Return what makes half-precision tensors of a shape on a GPU that need not be there."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        yield lambda *shape: torch.empty(shape, device="cuda", dtype=torch.float16)


def test_a_tensor_of_the_cpu_is_refused_there(on_gpu):
    """Or the tests below could not fail."""
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(on_gpu(3, 3), torch.ones(3, 3, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="device"):
        torch.add(on_gpu(3, 3), torch.ones(3, 3, dtype=torch.float16))


def test_states_that_were_moved_go_back_to_their_device(on_gpu):
    states = on_gpu(5, 8)
    moved = _like(np.zeros((5, 8)), states)
    assert (moved.device, moved.dtype) == (states.device, states.dtype)
    lengths = _lengths(states)
    assert (lengths.device, lengths.dtype) == (states.device, states.dtype)


def test_guidance_is_made_where_the_network_answers(on_gpu):
    guidance = SemanticGuidance(FairDiffusion(), [1, -1])
    unsaid, said, other = (on_gpu(2, 4, 8, 8) for _ in range(3))
    for progress in (0.0, 0.5, 0.9):
        gamma = guidance.gamma(unsaid, [said, other], progress)
        assert (gamma.device, gamma.dtype) == (unsaid.device, unsaid.dtype)


def test_layers_are_edited_where_they_lie(on_gpu):
    layer = SimpleNamespace(weight=torch.nn.Parameter(on_gpu(4, 8), requires_grad=False))
    unet = SimpleNamespace(named_modules=lambda: [("block.attn2.to_k", layer)])
    editing = LayerEdit(SimpleNamespace(unet=unet), {"text_encoder": np.eye(8)})
    kind = layer.weight.device, layer.weight.dtype
    with editing.applied():
        assert (layer.weight.device, layer.weight.dtype) == kind
    assert (layer.weight.device, layer.weight.dtype) == kind
