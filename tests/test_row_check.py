"""``eq.RowCheck``: no call looks, and no error is lost."""

from __future__ import annotations

import gc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import equipoise as eq
from equipoise import _row_check as row_check
from equipoise.errors import InputError, InvalidRowsError
from tests.helpers.common import component, make_space


def as_is(rows):
    return rows


def as_torch(rows):
    return component("torch").tensor(rows)


def as_torch_with_gradients(rows):
    return component("torch").tensor(rows, requires_grad=True)


def as_jax(rows):
    return component("jax").numpy.asarray(rows)


FRAMEWORKS = (as_is, as_torch, as_torch_with_gradients, as_jax)


@pytest.fixture
def space(rng):
    return make_space(rng, 24, 4)


def spoilt(rng, rows=6):
    e = rng.standard_normal((rows, 24)).astype(np.float32)
    e[2], e[4, 0] = 0, np.nan
    return e


@pytest.mark.parametrize("given", FRAMEWORKS)
def test_a_check_raises_once_for_all_calls(rng, space, given):
    good = rng.standard_normal((5, 24)).astype(np.float32)
    check = eq.RowCheck()
    for rows in (good, spoilt(rng), good, spoilt(rng)):
        eq.debias(given(rows), space, on_invalid=check)
    assert repr(check) == "RowCheck(4 calls not yet looked at)"
    with pytest.raises(
        InvalidRowsError, match=r"4 of 22 rows in 4 calls.* 2 of 6 in call 2"
    ) as caught:
        check.raise_if_invalid()
    assert caught.value.count == 4
    check.raise_if_invalid()  # that was told, and it starts anew
    eq.debias(given(good), space, on_invalid=check)
    check.raise_if_invalid()


@pytest.mark.parametrize("given", FRAMEWORKS)
def test_rows_come_back_as_with_keep(rng, space, given):
    e = given(spoilt(rng))
    with pytest.raises(InvalidRowsError), eq.RowCheck() as check:
        u = eq.debias(e, space, on_invalid=check)
    kept = eq.debias(e, space, on_invalid="keep")
    u, kept = (x.detach().numpy() if hasattr(x, "detach") else np.asarray(x) for x in (u, kept))
    assert u.tobytes() == kept.tobytes()


def test_out_is_written_and_the_check_asked_later(rng, space):
    e = spoilt(rng)
    kept = eq.debias(e, space, on_invalid="keep")
    with pytest.raises(InvalidRowsError), eq.RowCheck() as check:
        assert eq.debias(e, space, out=e, on_invalid=check) is e
    assert e.tobytes() == kept.tobytes()


@pytest.mark.parametrize("shape", [(24,), (0, 24), (2, 3, 24)], ids=str)
def test_any_leading_shape(rng, space, shape):
    with eq.RowCheck() as check:
        eq.debias(rng.standard_normal(shape), space, on_invalid=check)


def test_inside_a_transform_nothing_is_noted(rng, space):
    """A number that is only traced cannot be read later: an error says so at once."""
    torch, jax = component("torch"), component("jax")
    e, check = rng.standard_normal((3, 24)).astype(np.float32), eq.RowCheck()
    with pytest.raises(InputError, match="unchecked"):
        jax.jit(lambda x: eq.debias(x, space, on_invalid=check))(e)
    with pytest.raises(InputError, match="unchecked"):
        torch.func.vmap(lambda x: eq.debias(x, space, on_invalid=check))(torch.tensor(e))
    check.raise_if_invalid()
    assert repr(check) == "RowCheck(0 calls not yet looked at)"


def test_a_check_that_nobody_asked_warns(rng, space):
    check = eq.RowCheck()
    eq.debias(spoilt(rng), space, on_invalid=check)
    with pytest.warns(UserWarning, match="raise_if_invalid"):
        del check
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked, unused = eq.RowCheck(), eq.RowCheck()
        eq.debias(rng.standard_normal((3, 24)), space, on_invalid=asked)
        asked.raise_if_invalid()
        del asked, unused
        gc.collect()


def test_another_error_is_not_hidden(rng, space):
    with pytest.raises(ZeroDivisionError), eq.RowCheck() as check:
        eq.debias(spoilt(rng), space, on_invalid=check)
        raise ZeroDivisionError


def test_few_numbers_wait_at_any_time(rng, space, monkeypatch):
    """A loop without an end does not fill a device with numbers, and none of them is lost."""
    monkeypatch.setattr(row_check, "MOST_WAITING", 3)
    check, most = eq.RowCheck(), 0
    for _ in range(8):
        eq.debias(spoilt(rng), space, on_invalid=check)
        most = max(most, len(check._waiting))
    assert most < 3
    with pytest.raises(InvalidRowsError, match=r"16 of 48 rows in 8 calls.* 2 of 6 in call 1"):
        check.raise_if_invalid()


class OnItsWay:
    """A number that is first waited for in vain."""

    def __init__(self):
        self.waited = False

    def __int__(self):
        if not self.waited:
            self.waited = True
            raise KeyboardInterrupt
        return 2


def test_a_look_that_is_interrupted_counts_no_call_twice():
    check = eq.RowCheck()
    for invalid in (1, OnItsWay(), 0):
        check.add(invalid, 5)
    with pytest.raises(KeyboardInterrupt):
        check.raise_if_invalid()
    with pytest.raises(InvalidRowsError, match=r"3 of 15 rows in 3 calls.*1 of 5 in call 1"):
        check.raise_if_invalid()


@pytest.fixture
def many_switches():
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_no_call_of_another_thread_is_lost(monkeypatch, many_switches):
    monkeypatch.setattr(row_check, "MOST_WAITING", 7)
    check, found = eq.RowCheck(), 0

    def work(_):
        for _ in range(2000):
            check.add(1, 1)

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, i) for i in range(4)]
        while not all(task.done() for task in running):
            found += asked(check)
        for task in running:
            task.result()
    assert found + asked(check) == 8000


def asked(check):
    """Return how many rows a check tells of."""
    try:
        check.raise_if_invalid()
    except InvalidRowsError as error:
        return error.count
    return 0
