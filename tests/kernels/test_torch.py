"""torch tensors: memory shared with the fused kernel, gradients through the plain form."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError, InvalidRowsError
from tests.helpers.common import component, make_space, rows_at

torch = component("torch")


@pytest.fixture
def space(rng):
    return make_space(rng, 24, 4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kappa": 0.3},
        {"kappa": float("inf")},
        {"kappa": "printed"},
        {"weights": (0.1, 0.9)},
        {"norm": "keep"},
        {"kappa": 0},
    ],
    ids=str,
)
def test_gradcheck(rng, space, options, one_thread):
    e = torch.tensor(rng.standard_normal((4, 2, 24)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: eq.debias(x, space, **options), e)
    if options in ({}, {"kappa": 0.3}):
        assert torch.autograd.gradgradcheck(lambda x: eq.debias(x, space, **options), e)


def test_gradients_are_finite_at_degenerate_rows(rng, space):
    neutral = eq.debias(rng.standard_normal(24), space, kappa=np.inf)
    rows = np.stack([neutral, space.basis[:, 0], neutral * 1e-150, neutral * 1e150])
    for kappa in (0.0, 0.7, float("inf"), "printed"):
        e = torch.tensor(rows, requires_grad=True)
        eq.debias(e, space, kappa=kappa).sum().backward()
        assert e.grad is not None and e.grad.isfinite().all(), kappa


def test_gradient_flows_to_kappa(rng, space):
    e = torch.tensor(rng.standard_normal((5, 24)))
    kappa = torch.full((5,), 0.8, dtype=torch.float64, requires_grad=True)
    assert eq.kernels.which(e) == "numba"
    assert torch.autograd.gradcheck(lambda k: eq.debias(e, space, kappa=k), kappa)


def test_one_kappa_for_all_rows_may_be_learned(rng, space):
    e = torch.tensor(rng.standard_normal((5, 24)))
    kappa = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: eq.debias(e, space, kappa=k), kappa)
    slope = torch.func.grad(lambda k: eq.debias(e, space, kappa=k, on_invalid="unchecked")[0, 0])(
        kappa.detach()
    )
    eq.debias(e, space, kappa=kappa)[0, 0].backward()
    assert torch.equal(slope, kappa.grad)
    each = torch.func.vmap(lambda k: eq.debias(e, space, kappa=k, on_invalid="unchecked"))(
        torch.tensor([0.5, 2.0])
    )
    assert torch.allclose(each[1], eq.debias(e, space, kappa=2.0), atol=1e-14)
    assert eq.certify(e, space, kappa=kappa).summary()["kappa"] == "0.8"
    with pytest.raises(InputError, match="negative or NaN"):
        eq.debias(e, space, kappa=-kappa)
    with pytest.raises(InputError, match="both given"):
        eq.debias(e, space, kappa=kappa, weights=(1, 2))


def test_functional_transforms_and_no_grad(rng, space):
    e = torch.tensor(rng.standard_normal((5, 24)))
    jacobian = torch.func.vmap(
        torch.func.jacrev(lambda x: eq.debias(x, space, on_invalid="unchecked"))
    )(e)
    assert jacobian.shape == (5, 24, 24)
    u = eq.debias(e, space)  # the result is unit: no gradient along itself
    assert torch.einsum("ni,nij->nj", u, jacobian).abs().max() < 1e-14
    weight = torch.nn.Parameter(e)
    with torch.no_grad():
        assert eq.kernels.which(weight) == "numba"


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_dtypes_keep_their_type_and_memory(rng, space, dtype):
    e = torch.tensor(rng.standard_normal((200, 24)), dtype=dtype)
    before = e.clone()
    u = eq.debias(e, space)
    assert u.dtype == dtype and u.shape == e.shape and u.device == e.device
    assert torch.equal(e, before)
    want = eq.debias(e.double().numpy(), space)
    assert np.abs(u.double().numpy() - want).max() <= 2 * torch.finfo(dtype).eps
    plain = eq.debias(e.clone().requires_grad_(), space)
    assert np.abs(plain.detach().double().numpy() - want).max() <= 2 * torch.finfo(dtype).eps
    out = torch.empty_like(e)
    assert eq.debias(e, space, out=out) is out and torch.equal(out, u)
    assert torch.equal(eq.debias(e.t().contiguous().t(), space), u)
    strided = torch.empty(200, 48, dtype=dtype)[:, ::2]
    assert torch.equal(eq.debias(e, space, out=strided), u) and torch.equal(strided, u)


def test_autocast_and_matmul_precision_do_not_leak_in(rng, space):
    e = torch.tensor(
        rows_at(rng, space, rng.uniform(0.1, 0.9, 100)), dtype=torch.float32, requires_grad=True
    )
    want = eq.debias(e, space)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(eq.debias(e, space), want)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_kappa_tensor_and_invalid_rows(rng, space):
    e = torch.tensor(rng.standard_normal((6, 24)))
    kappa = torch.tensor([0.0, 0.5, 1.0, 2.0, 9.0, float("inf")])
    assert np.allclose(
        eq.debias(e, space, kappa=kappa).numpy(),
        eq.debias(e.numpy(), space, kappa=kappa.double().numpy()),
        atol=1e-7,
    )
    e[2], e[4, 0] = 0, float("nan")
    with pytest.raises(InvalidRowsError, match="2 of 6 rows"):
        eq.debias(e, space)
    with pytest.raises(InvalidRowsError, match="2 of 6 rows"):
        eq.debias(e.clone().requires_grad_(), space)
    before = e.clone()
    with pytest.raises(InvalidRowsError):
        eq.debias(e, space, out=e)
    assert torch.equal(e.view(torch.int64), before.view(torch.int64))
    kept = eq.debias(e, space, on_invalid="keep")
    assert torch.equal(kept[[2, 4]].view(torch.int64), e[[2, 4]].view(torch.int64))


def test_errors(rng, space):
    e = torch.tensor(rng.standard_normal((6, 24)))
    with pytest.raises(InputError, match="gradients"):
        eq.debias(e.clone().requires_grad_(), space, out=torch.empty_like(e))
    with pytest.raises(InputError, match="must match"):
        eq.debias(e, space, out=np.empty((6, 24)))
    with pytest.raises(InputError, match="int64"):
        eq.debias(torch.ones(6, 24, dtype=torch.int64), space)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:To copy construct"
)  # the tracer's own remark on tensors made from numpy arrays
def test_works_in_compiled_code(rng, space):
    e = torch.tensor(rng.standard_normal((6, 24)))
    compiled = torch.compile(
        lambda x: eq.debias(2 * x, space, on_invalid="unchecked") + 1, backend="aot_eager"
    )
    assert np.allclose(compiled(e).numpy(), eq.debias(e, space).numpy() + 1, atol=1e-14)


def test_prototypes_may_be_tensors(rng):
    prototypes = rng.standard_normal((2, 24))
    from_torch = eq.AttributeSpace.from_prototypes(
        {"a": torch.tensor(prototypes[0]), "b": torch.tensor(prototypes[1], requires_grad=True)}
    )
    assert np.allclose(
        np.abs(
            from_torch.basis.T
            @ eq.AttributeSpace.from_prototypes(dict(zip("ab", prototypes, strict=True))).basis
        ),
        1,
    )
    half = eq.AttributeSpace.from_prototypes(
        {"a": torch.tensor(prototypes[0]).bfloat16(), "b": torch.tensor(prototypes[1]).bfloat16()}
    )
    assert half.dim == 24


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "weights", [(1, 1), (0.3, 0.7), (0.01, 0.99), (1e300, 1e-300), (1e-300, 1e300)], ids=str
)
def test_gradients_with_weights(rng, space, dtype, weights):
    e = torch.tensor(rng.standard_normal((20, 24)), dtype=dtype, requires_grad=True)
    eq.debias(e, space, weights=weights).sum().backward()
    assert e.grad is not None and e.grad.isfinite().all()


def test_gradients_around_rows_without_a_direction(rng, space):
    e = torch.tensor(rng.standard_normal((4, 24)))
    e[1], e[2, 3], e[3, 0] = 0, float("nan"), float("inf")
    e.requires_grad_()
    eq.debias(e, space, on_invalid="keep")[0].sum().backward()
    assert e.grad is not None and e.grad.isfinite().all() and (e.grad[1:] == 0).all()


def test_forward_mode(rng, space):
    from torch.autograd import forward_ad

    e, tangent = torch.tensor(rng.standard_normal((2, 3, 24)))
    with forward_ad.dual_level():
        u = forward_ad.unpack_dual(
            eq.debias(forward_ad.make_dual(e, tangent), space, on_invalid="unchecked")
        )
    step = 1e-6
    difference = (eq.debias(e + step * tangent, space) - eq.debias(e - step * tangent, space)) / (
        2 * step
    )
    assert u.tangent is not None and torch.allclose(u.tangent, difference, atol=1e-8)


def test_tracing_does_not_leak_into_later_calls(rng, space):
    class Debias(torch.nn.Module):
        def forward(self, x):
            return eq.debias(x, space, on_invalid="unchecked")

    e = torch.tensor(rng.standard_normal((3, 24)))
    exported = torch.export.export(Debias(), (e,), strict=False).module()
    assert torch.allclose(exported(e), eq.debias(e, space), atol=1e-14)
    assert type(eq.debias(e.clone().requires_grad_(), space)) is torch.Tensor
    with torch.inference_mode():
        torch.func.vmap(Debias())(e)
    eq.debias(e.clone().requires_grad_(), space).sum().backward()


def test_out_is_protected(rng, space):
    x = torch.tensor(rng.standard_normal((6, 24)))
    with pytest.raises(InputError, match="overlaps"):
        eq.debias(x[:-1], space, out=x[1:])
    with pytest.raises(InputError, match="gradients"):
        eq.debias(x, space, out=torch.empty(6, 24, dtype=x.dtype, requires_grad=True))
    w = torch.ones(6, 24, dtype=x.dtype, requires_grad=True)
    z = (w * x).sum()
    eq.debias(x, space, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_out_that_cannot_be_written_to_is_refused(rng, space):
    x = torch.tensor(rng.standard_normal((6, 24)))
    for out in (torch.zeros(24, dtype=x.dtype).expand(6, 24), torch.zeros_like(x[:1]).expand_as(x)):
        with pytest.raises(InputError, match="more than once"):
            eq.debias(x, space, out=out)
    with torch.inference_mode():
        out = torch.empty_like(x)
        assert torch.equal(eq.debias(x, space, out=out), eq.debias(x, space))
    with pytest.raises(InputError, match="inference_mode"):
        eq.debias(x, space, out=out)


def test_default_check_inside_a_transform_says_what_to_pass(rng, space):
    e = torch.tensor(rng.standard_normal((3, 24)))
    with pytest.raises(InputError, match="unchecked"):
        torch.func.vmap(lambda x: eq.debias(x, space))(e)
    u = torch.func.vmap(lambda k: eq.debias(e, space, kappa=k, on_invalid="unchecked"))(
        torch.ones(2, 3)
    )
    assert torch.allclose(u[1], eq.debias(e, space), atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        np.float32,
        lambda v: np.array(v, ">f8"),
        lambda v: torch.tensor(v).bfloat16(),
        lambda v: torch.tensor(v, requires_grad=True),
    ],
)
def test_kappa_of_another_framework(rng, space, make):
    e = rng.standard_normal((3, 24))
    kappa = make([0.5, 1.0, 2.0])
    want = eq.debias(e, space, kappa=np.array([0.5, 1.0, 2.0]))
    for array in (e, torch.tensor(e)):
        assert np.allclose(
            np.asarray(torch.as_tensor(eq.debias(array, space, kappa=kappa)).detach()),
            want,
            atol=1e-6,
        )
