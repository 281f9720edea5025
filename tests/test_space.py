"""``AttributeSpace``: fitting, the file, and every way a file or a prototype can be wrong."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import equipoise as eq
from equipoise._space import EncoderRef
from equipoise.errors import ArtefactError, EncoderMismatchError, InputError
from tests.helpers.common import make_space, unit


def test_fit(rng):
    male, female = rng.standard_normal((2, 32))
    space = eq.AttributeSpace.from_prototypes(
        {"male": 3 * male, "female": female}, attribute="gender"
    )
    assert (space.dim, space.rank, space.groups, space.kappa) == (32, 1, ("male", "female"), 1.0)
    axis = unit(unit(male) - unit(female))
    assert np.isclose(abs(axis @ space.basis[:, 0]), 1)
    assert repr(space) == "AttributeSpace(gender(male, female), dim=32, rank=1, kappa=1)"
    many = eq.AttributeSpace.from_prototypes({"male": np.stack([male, 2 * male]), "female": female})
    assert np.allclose(np.abs(many.basis.T @ space.basis), 1)


def test_an_attribute_gives_its_name(rng, tmp_path):
    space = make_space(rng, attribute=eq.Attribute("gender", ("male", "female")))
    space.save(tmp_path / "space.safetensors")
    assert (
        space.parts[0].attribute
        == eq.AttributeSpace.load(tmp_path / "space.safetensors").parts[0].attribute
        == "gender"
    )


def test_union_equalises_both(rng):
    gender, age = make_space(rng, 32, 2), make_space(rng, 32, 3)
    both = gender + age
    assert both.rank == 3
    u = eq.debias(rng.standard_normal((20, 32)), both, kappa=np.inf)
    for part in both.parts:
        assert np.ptp(u @ part.prototypes.T, axis=1).max() < 1e-13
    assert (gender + gender).rank == 1
    with pytest.raises(InputError, match="16"):
        gender + make_space(rng, 16)
    with pytest.raises(InputError, match="kappa"):
        gender + age.with_kappa(2.0)
    with pytest.raises(EncoderMismatchError):
        make_space(rng, encoder="a") + make_space(rng, encoder="b")
    assert (make_space(rng, encoder="a") + make_space(rng)).encoder.id == "a"
    with pytest.raises(TypeError):
        gender + 1


def test_round_trip(rng, tmp_path):
    encoder = SimpleNamespace(id="hf:clip", revision="abc", fingerprint="f" * 64)
    space = make_space(
        rng,
        32,
        3,
        attribute="race",
        kappa=np.inf,
        scope="per prompt",
        tolerance=1e-3,
        encoder=encoder,
        book_hash="123",
    )
    union = space + make_space(rng, 32, 2, attribute="age", kappa=np.inf)
    for each in (space, union):
        each.save(tmp_path / "deep" / "space.safetensors")
        back = eq.AttributeSpace.load(tmp_path / "deep" / "space.safetensors")
        assert np.array_equal(back.basis, each.basis)
        for name in (
            "groups",
            "rank",
            "kappa",
            "scope",
            "tolerance",
            "encoder",
            "book_hash",
            "version",
        ):
            assert getattr(back, name) == getattr(each, name), name
        for mine, theirs in zip(each.parts, back.parts, strict=True):
            assert mine[:2] == theirs[:2] and np.array_equal(mine.prototypes, theirs.prototypes)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == [
        "space.safetensors"
    ]  # no temporary left
    with safe_open(tmp_path / "deep" / "space.safetensors", "np") as file:
        metadata = json.loads(file.metadata()["equipoise"])
    assert {
        "format",
        "kind",
        "groups",
        "rank",
        "scope",
        "kappa",
        "encoder",
        "book_hash",
        "version",
    } <= metadata.keys()


@pytest.mark.parametrize(
    ("prototypes", "message"),
    [
        ({"a": [1.0, 2]}, "two groups"),
        ({}, "two groups"),
        ([1, 2], "mapping"),
        ({"a": [1.0, 2], "b": [1.0, 2]}, "identical"),
        ({"a": [1.0, 2], "b": [2.0, 4 + 1e-7]}, "identical"),
        ({"a": [1.0, 2], "b": [1.0, np.nan]}, "'b' holds NaN"),
        ({"a": [np.inf, 2], "b": [1.0, 1]}, "'a' holds NaN or infinity"),
        ({"a": [0.0, 0], "b": [1.0, 1]}, "'a' is zero"),
        ({"a": [1.0, 0, 0], "b": [1.0, 1]}, "2 wide and the first one 3"),
        ({"a": [[1.0, 0], [-1.0, 0]], "b": [1.0, 1]}, "cancel"),
        (
            {"a": [[0.1, 0.7], [-0.3, -2.1], [0.2, 1.4], [-1.1, -7.7]], "b": [1.0, 1]},
            "cancel",
        ),  # but for rounding
        ({"a": "text", "b": [1.0, 1]}, "not an array"),
        ({"a": 1.0, "b": [1.0, 1]}, r"shape \(\)"),
    ],
    ids=str,
)
def test_bad_prototypes(prototypes, message):
    with pytest.raises(InputError, match=message):
        eq.AttributeSpace.from_prototypes(prototypes)


def test_bad_options(rng):
    with pytest.raises(InputError, match="tolerance=2"):
        make_space(rng, tolerance=2)
    with pytest.raises(InputError, match="shared, per prompt"):
        make_space(rng, scope="mine")


def test_bad_kappa(rng):
    for kappa in (-1, "printed", [1.0]):
        with pytest.raises(InputError, match="kappa"):
            make_space(rng, kappa=kappa)
        with pytest.raises(InputError, match="kappa"):
            make_space(rng).with_kappa(kappa)


@pytest.fixture
def saved(rng, tmp_path):
    path = tmp_path / "space.safetensors"
    make_space(rng, encoder=EncoderRef("hf:clip", "1", "aaaa")).save(path)
    return path


def rewrite(path, arrays=None, **changes):
    with safe_open(path, "np") as file:
        metadata = json.loads(file.metadata()["equipoise"])
    for key, value in changes.items():
        metadata.pop(key) if value is None else metadata.update({key: value})
    save_file(load_file(path) | (arrays or {}), path, {"equipoise": json.dumps(metadata)})


@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.5, 0.999])
def test_truncated_file(saved, fraction):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * fraction)])
    with pytest.raises(ArtefactError, match="truncated"):
        eq.AttributeSpace.load(saved)


def test_wrong_files(saved, tmp_path):
    with pytest.raises(ArtefactError, match="no file"):
        eq.AttributeSpace.load(tmp_path / "nowhere")
    for use in (eq.AttributeSpace.load, eq.AttributeSpace.load(saved).save):
        with pytest.raises(ArtefactError, match="is a folder"):
            use(tmp_path)
    save_file({"x": np.ones(3)}, tmp_path / "other")
    with pytest.raises(ArtefactError, match="did not write it"):
        eq.AttributeSpace.load(tmp_path / "other")
    rewrite(saved, format=99)
    with pytest.raises(ArtefactError, match=r"format 99 .* pip install -U"):
        eq.AttributeSpace.load(saved)
    rewrite(saved, format=1, kind="operator")
    with pytest.raises(ArtefactError, match="an operator"):
        eq.AttributeSpace.load(saved)
    rewrite(saved, kind="attribute space", scope=None)
    with pytest.raises(ArtefactError, match="scope"):
        eq.AttributeSpace.load(saved)
    rewrite(saved, scope="shared", arrays={"basis": np.ones((64, 2))})
    with pytest.raises(ArtefactError, match="not orthonormal"):
        eq.AttributeSpace.load(saved)


def test_another_encoder_is_refused(saved):
    for same in (
        None,
        "hf:clip",
        EncoderRef("hf:clip", "1", "aaaa"),
        SimpleNamespace(id="renamed", fingerprint="aaaa"),
    ):
        eq.AttributeSpace.load(saved, encoder=same)
    for other in ("hf:siglip", EncoderRef("hf:clip", "2"), EncoderRef("hf:clip", "1", "bbbb")):
        with pytest.raises(EncoderMismatchError, match=re.escape("hf:clip @1")):
            eq.AttributeSpace.load(saved, encoder=other)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "one"},
        {"format": None},
        {"kappa": "nan"},
        {"kappa": -1},
        {"kappa": 10**400},
        {"parts": []},
        {"parts": [{"attribute": "a", "groups": [1, 2, 3]}]},
        {"parts": [{"attribute": "a", "groups": ["x", "y"]}]},
        {"encoder": "hf:clip"},
        {"tolerance": "x"},
    ],
    ids=str,
)
def test_hostile_metadata(saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(ArtefactError):
        eq.AttributeSpace.load(saved)


@pytest.mark.parametrize(
    "arrays",
    [
        {"prototypes.0": np.full((3, 64), np.nan)},
        {"prototypes.0": np.ones((3, 64))},
        {"basis": np.eye(64, 2, dtype=np.int64)},
        {"basis": np.zeros((64, 0))},
    ],
)
def test_hostile_arrays(saved, arrays):
    rewrite(saved, arrays)
    with pytest.raises(ArtefactError):
        eq.AttributeSpace.load(saved)


@pytest.mark.parametrize("document", ["[]", "3", "[" * 100_000, "{", '{"kind": 5, "format": []}'])
def test_hostile_documents(saved, document):
    save_file(load_file(saved), saved, {"equipoise": document})
    with pytest.raises(ArtefactError):
        eq.AttributeSpace.load(saved)


def test_tolerance_never_adds_a_direction_of_noise(rng):
    assert make_space(rng, 64, 2, tolerance=0).rank == 1
    male, female = rng.standard_normal((2, 64))
    assert (
        eq.AttributeSpace.from_prototypes({"a": male, "b": 3 * male, "c": female}, tolerance=0).rank
        == 1
    )


def test_names_that_collide(rng):
    with pytest.raises(InputError, match="same name"):
        eq.AttributeSpace.from_prototypes({1: rng.standard_normal(4), "1": rng.standard_normal(4)})


def test_frozen_and_light_to_pickle(rng):
    space = make_space(rng)
    eq.debias(rng.standard_normal((2, 64)), space)
    with pytest.raises(ValueError, match="read-only"):
        space.basis[0, 0] = 1
    twin = copy.deepcopy(space)  # goes the way of pickling, as multiprocessing does
    assert np.array_equal(twin.basis, space.basis) and not twin.low_rank._cache


@pytest.mark.parametrize(
    "twin",
    [
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda space: space.with_kappa(2),
        lambda space: space + space,
        lambda space: pickle.loads(pickle.dumps(space)),  # noqa: S301, made by this very line
    ],
    ids=["copy", "deepcopy", "replace", "with_kappa", "union", "pickle"],
)
def test_no_copy_can_be_written_to(rng, twin):
    space = make_space(rng)
    eq.debias(rng.standard_normal((2, 64)), space)
    made = twin(space)
    for array in (made.basis, made.low_rank.right, *(part.prototypes for part in made.parts)):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    assert made.fingerprint == type(made)(made.basis, made.parts).fingerprint
