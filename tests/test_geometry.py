"""The theorems of the closed form, on numbers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import geometry
from equipoise.errors import InputError
from tests.helpers.common import unit

ps = st.floats(1e-7, 0.9999)
kappas = st.floats(1e-3, 1e3)


def parts(p):
    return p * p, np.sqrt((1 - p) * (1 + p))


def shrink(p, kappa=1.0):
    return geometry.half_angle(*parts(p), kappa, np.sqrt)[0]


@pytest.mark.parametrize(
    ("p", "alpha"),
    [
        (0.01, 0.00381969896848706),
        (0.1, 0.0382356168221721),
        (0.3, 0.115679981125832),
        (0.6, 0.23915981312599),
        (0.9, 0.392369266428568),
    ],
)
def test_check_values_of_the_paper_point(p, alpha):
    assert abs(p * shrink(p) - alpha) < 1e-14


@pytest.mark.parametrize(
    ("kappa", "alpha"),
    [
        (0.1, 0.273096498975167),
        (0.5, 0.187805719715838),
        (2, 0.100399759205417),
        (10, 0.0312146258132104),
    ],
)
def test_check_values_over_kappa(kappa, alpha):
    assert abs(0.37 * shrink(0.37, kappa) - alpha) < 1e-14


@given(ps)
def test_equals_the_papers_expression_in_forty_digits(p):
    with mpmath.workdps(60):
        a = mpmath.mpf(p)
        b = mpmath.sqrt(1 - a * a)
        big = a + (1 - b) / a
        alpha = (big - b * mpmath.sqrt(big**2 - a**2)) / (big**2 + b**2)
        assert abs(p * shrink(p) / float(alpha) - 1) < 4e-15  # a dozen roundings


def test_float32_shrink_within_four_in_ten_million():
    p = np.concatenate(
        [np.geomspace(1e-7, 0.9999, 40001), 1 - np.geomspace(1e-4, 0.5, 4001)]
    ).astype(np.float32)
    wide = p.astype(np.float64)
    o = np.sqrt((1 - wide) * (1 + wide)).astype(np.float32)
    narrow = geometry.half_angle(p * p, o, np.float32(1), np.sqrt)[0]
    assert narrow.dtype == np.float32
    assert np.abs(narrow / shrink(wide) - 1).max() <= 4e-7


def test_shrink_runs_from_golden_ratio_to_one_half():
    assert abs(shrink(1e-9) - (3 - np.sqrt(5)) / 2) < 1e-15
    assert abs(shrink(1.0) - 0.5) < 1e-15


@given(ps, kappas)
def test_normalised_losses_balance(p, kappa):
    """kappa * L / p = V / (1 - o): the minimax point."""
    p2, o = parts(p)
    leakage, loss = geometry.leakage_and_loss(np.float64(p), o, kappa)
    assert np.isclose(kappa * leakage / p, loss / (p2 / (1 + o)), rtol=1e-12)


@given(ps, kappas, st.floats(1.001, 10))
def test_monotone_in_kappa(p, kappa, factor):
    _, o = parts(p)
    less, more = (geometry.leakage_and_loss(np.float64(p), o, k) for k in (kappa, kappa * factor))
    assert more[0] < less[0]
    assert more[1] > less[1]


@given(ps)
def test_the_two_limits(p):
    p2, o = parts(p)
    assert geometry.half_angle(p2, o, 0.0, np.sqrt)[0] == 1
    assert geometry.half_angle(p2, o, np.inf, np.sqrt) == (0, 1)
    assert geometry.self_loss(p2, o, 0.0, np.sqrt) < 1e-35
    assert np.isclose(geometry.self_loss(p2, o, np.inf, np.sqrt), p2 / (1 + o), rtol=1e-14)


@given(ps, kappas)
def test_self_loss_is_the_cosine_distance(p, kappa):
    p2, o = parts(p)
    factor, beta = geometry.half_angle(p2, o, kappa, np.sqrt)
    assert (
        abs(geometry.self_loss(p2, o, kappa, np.sqrt) - (1 - (p2 * factor + o * beta))) < 1e-15
    )  # eight roundings of numbers up to 1


@given(ps)
def test_printed_problem_equalises_the_raw_losses(p):
    p2, o = parts(p)
    leakage, loss = geometry.leakage_and_loss(
        np.float64(p), o, geometry.printed_kappa(p2, o, np.sqrt)
    )
    assert np.isclose(leakage, loss, rtol=1e-12)


@given(st.floats(1e-3, 0.999), st.floats(1e-3, 1.5))
def test_weighted_problem_has_no_better_point(p, ratio):
    p2, o = parts(p)
    leakage, loss = geometry.leakage_and_loss(
        np.float64(p), o, geometry.weighted_kappa(p2, o, ratio, np.sqrt)
    )
    front_leakage, front_loss = geometry.pareto_front(p, 2001)
    assert ratio * leakage + loss <= (ratio * front_leakage + front_loss).min() + 1e-12
    assert np.isclose(leakage, np.sin(np.arctan2(max(0.0, p - ratio), o)), rtol=1e-9, atol=1e-15)


@given(st.floats(1e-3, 0.999), kappas)
def test_every_kappa_lies_on_the_pareto_front(p, kappa):
    _, o = parts(p)
    leakage, loss = geometry.leakage_and_loss(np.float64(p), o, kappa)
    theta, phi = np.arcsin(p), np.arcsin(leakage)
    assert np.isclose(loss, 2 * np.sin((theta - phi) / 2) ** 2, rtol=1e-9, atol=1e-15)
    front_leakage, front_loss = geometry.pareto_front(p)
    assert (np.diff(front_leakage) > 0).all() and (np.diff(front_loss) < 0).all()


# --- Spaces ---


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_basis_is_orthonormal_and_spans_every_difference(groups, seed):
    prototypes = unit(np.random.default_rng(seed).standard_normal((groups, 24)))
    basis, _ = geometry.attribute_basis(prototypes)
    assert basis.shape == (24, groups - 1)
    assert np.allclose(basis.T @ basis, np.eye(groups - 1), atol=1e-14)
    for reference in range(groups):  # no group is special
        difference = prototypes - prototypes[reference]
        assert np.abs(difference - difference @ basis @ basis.T).max() < 1e-14


def test_basis_does_not_depend_on_group_order(rng):
    prototypes = unit(rng.standard_normal((5, 24)))
    first, _ = geometry.attribute_basis(prototypes)
    second, _ = geometry.attribute_basis(prototypes[[3, 0, 4, 1, 2]])
    assert np.abs(first @ first.T - second @ second.T).max() < 1e-14


def test_dependent_groups_lower_the_rank(rng):
    a, b = unit(rng.standard_normal((2, 24)))
    basis, singular = geometry.attribute_basis(np.stack([a, b, (a + b) / 2]))
    assert basis.shape[1] == 1
    assert singular[1] < 1e-15


def test_union_keeps_an_attribute_of_a_hundred_thousandth_the_scale(rng):
    strong, weak = rng.standard_normal((2, 24))
    base = unit(rng.standard_normal(24))
    gender, _ = geometry.attribute_basis(unit(np.stack([base + strong, base - strong])))
    age, _ = geometry.attribute_basis(unit(np.stack([base + 2e-5 * weak, base - 2e-5 * weak])))
    both, _ = geometry.union_basis([gender, age])
    assert both.shape[1] == 2
    for part in (gender, age):
        assert np.abs(part - both @ (both.T @ part)).max() < 1e-9


def test_identical_prototypes_are_an_error(rng):
    with pytest.raises(InputError, match="identical"):
        geometry.attribute_basis(np.stack([unit(rng.standard_normal(8))] * 3))


def test_prototype_is_the_spherical_mean(rng):
    rows = rng.standard_normal((7, 16)) * np.geomspace(1e-3, 1e3, 7)[:, None]
    mean = geometry.prototype(rows)
    assert np.isclose(np.linalg.norm(mean), 1)
    score = (unit(rows) @ mean).sum()  # no unit vector is closer to all of them
    others = unit(mean + 0.01 * rng.standard_normal((100, 16)))
    assert (unit(rows) @ others.T).sum(0).max() <= score
