"""Spaces from prompts: shared and a space a prompt, each prototype, any object with ``encode_text``, and files of text vectors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

import equipoise as eq
from equipoise import geometry
from equipoise._space import EncoderRef, Part
from equipoise.errors import ArtefactError, EncoderMismatchError, InputError
from equipoise.prompts._book_writers import GrammarWriter
from equipoise.prompts._text_vectors import TextVectors
from tests.helpers import models
from tests.helpers.common import component, run, shared_data, typed, unit

GENDER = eq.Attribute.load("gender")
BOTH = eq.Attribute.load("gender & age")
PROMPTS = ["a photo of a doctor", "a photo of a nurse", "a photo of a teacher"]


class Words:
    """An encoder that anyone could write: the sum of a vector a word, not even of unit length."""

    id, revision, fingerprint, dim = "words", "r1", "f" * 64, 48

    def __init__(self):
        self.asked: list[str] = []

    def encode_text(self, texts):
        self.asked += texts
        return np.stack([sum(map(self.word, text.split())) for text in texts]).astype(np.float32)

    def word(self, word):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        return np.random.default_rng(seed).standard_normal(self.dim)


@pytest.fixture(scope="module")
def book():
    return (
        GrammarWriter().write(PROMPTS, BOTH).book.merge(GrammarWriter().write(PROMPTS, GENDER).book)
    )


def by_hand(encoder, texts):
    rows = unit(encoder.encode_text(list(texts)).astype(np.float64))
    return unit(rows.sum(axis=0))


@pytest.mark.parametrize("prototype", ["both", "anchor", "variants"])
@pytest.mark.parametrize("attribute", [GENDER, BOTH], ids=str)
def test_prototypes_are_the_papers(book, prototype, attribute):
    """Per prompt: the normalised sum of unit embeddings of anchor and variants. Shared: those, averaged over prompts, normalised."""
    encoder = Words()
    pick = {
        "both": lambda e: e.texts,
        "anchor": lambda e: [e.anchor],
        "variants": lambda e: e.variants,
    }[prototype]
    spaces = eq.SpaceSet.from_prompts(encoder, book, attribute, prototype=prototype)
    shared = eq.AttributeSpace.from_prompts(encoder, book, attribute, prototype=prototype)
    assert list(spaces) == PROMPTS and spaces.groups == shared.groups == attribute.groups
    each = {
        p: np.stack([by_hand(encoder, pick(book[p][g])) for g in attribute.groups]) for p in PROMPTS
    }
    for prompt in PROMPTS:
        assert np.allclose(spaces[prompt].parts[0].prototypes, each[prompt], atol=1e-12)
        assert (
            spaces[prompt].scope == "per prompt"
            and spaces[prompt].rank == len(attribute.groups) - 1
        )
    mean = unit(np.mean([each[p] for p in PROMPTS], axis=0))
    assert np.allclose(shared.parts[0].prototypes, mean, atol=1e-12) and shared.scope == "shared"
    assert (
        shared.encoder[:3] == ("words", "r1", "f" * 64)
        and shared.book_hash == book.hash
        and shared.parts[0].attribute == attribute.name
    )


def test_each_text_is_encoded_once(book):
    encoder = Words()
    told = []
    eq.AttributeSpace.from_prompts(
        encoder, book, BOTH, progress=lambda done, total: told.append((done, total))
    )
    assert len(encoder.asked) == len(set(encoder.asked)) and told[-1] == (
        len(encoder.asked),
        len(encoder.asked),
    )


def test_a_set_saves_and_loads(book, tmp_path):
    spaces = eq.SpaceSet.from_prompts(Words(), book, BOTH, kappa=np.inf, tolerance=1e-3)
    spaces.save(tmp_path / "spaces.safetensors")
    back = eq.SpaceSet.load(tmp_path / "spaces.safetensors", encoder=Words())
    assert (
        list(back) == list(spaces) and len(back) == 3 and PROMPTS[0] in back and "other" not in back
    )
    x = np.random.default_rng(0).standard_normal((5, 48))
    for prompt in spaces:
        assert np.array_equal(back[prompt].basis, spaces[prompt].basis)
        assert np.array_equal(eq.debias(x, back[prompt]), eq.debias(x, spaces[prompt]))
        for name in ("kappa", "scope", "tolerance", "encoder", "book_hash", "version"):
            assert getattr(back[prompt], name) == getattr(spaces[prompt], name)
    with pytest.raises(EncoderMismatchError):
        eq.SpaceSet.load(tmp_path / "spaces.safetensors", encoder="another")
    with pytest.raises(InputError, match="other"):
        back["other"]
    assert (
        back.get("other") is None
        and back.get("other", 3) == 3
        and back.get(PROMPTS[0]) is back[PROMPTS[0]]
    )
    assert back.with_kappa(2.0)[PROMPTS[0]].kappa == 2.0 and "3 prompts" in repr(back)
    with pytest.raises(ArtefactError, match="space set"):
        eq.AttributeSpace.load(tmp_path / "spaces.safetensors")
    whole = (tmp_path / "spaces.safetensors").read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(ArtefactError):
            eq.SpaceSet.load(tmp_path / "cut")


def test_the_spaces_of_a_set_are_alike(book):
    """The file keeps what they share once."""
    spaces = eq.SpaceSet.from_prompts(Words(), book, GENDER)
    first = spaces[PROMPTS[0]]
    for change in (
        {"kappa": 2.0},
        {"book_hash": "other"},
        {"encoder": EncoderRef("other")},
        {"parts": (Part("sex", *first.parts[0][1:]),)},
        {"parts": first.parts * 2},
        {"tolerance": 0.3},
    ):
        with pytest.raises(InputError, match="must have one"):
            eq.SpaceSet({**spaces, "another": replace(first, **change)})


def test_wrap_with_a_space_a_prompt(book):
    encoder = Words()
    spaces = eq.SpaceSet.from_prompts(encoder, book, GENDER)
    wrapped = eq.wrap(encoder, spaces)
    plain = encoder.encode_text(PROMPTS)
    for row, prompt, debiased in zip(plain, PROMPTS, wrapped.encode_text(PROMPTS), strict=True):
        np.testing.assert_allclose(debiased, eq.debias(row[None], spaces[prompt])[0], atol=1e-6)
    with pytest.raises(InputError, match="no prompt of their own"):
        wrapped.operator.image(plain)
    with pytest.raises(InputError, match=r"spaces\[prompt\]"):
        eq.debias(plain, spaces)


@pytest.mark.parametrize("attribute", [GENDER, BOTH], ids=str)
def test_a_gated_wrap_leaves_explicit_texts(book, attribute):
    encoder = Words()
    space = eq.AttributeSpace.from_prompts(encoder, book, attribute)
    texts = ["a photo of a doctor", "a photo of a woman and her dog"]
    plain, gated = encoder.encode_text(texts), eq.wrap(encoder, space, gate=True).encode_text(texts)
    debiased = eq.wrap(encoder, space).encode_text(texts)
    np.testing.assert_array_equal(gated[1], plain[1])
    np.testing.assert_array_equal(gated[0], debiased[0])
    assert not np.allclose(debiased, plain)


def test_a_set_with_wrong_metadata(book, tmp_path):
    from equipoise import _artefact as artefact

    spaces = eq.SpaceSet.from_prompts(Words(), book, GENDER)
    spaces.save(tmp_path / "s")
    arrays, metadata = artefact.load(tmp_path / "s", "space set")
    for change in (
        {"ranks": [1, 1]},
        {"ranks": [1, 1, 2]},
        {"prompts": ["a", "a", "b"]},
        {"prompts": 3},
        {"ranks": None},
        {"kappa": "x"},
    ):
        artefact.save(tmp_path / "bad", "space set", arrays, metadata | change)
        with pytest.raises(ArtefactError):
            eq.SpaceSet.load(tmp_path / "bad")


def test_partial_books(book):
    short = book.merge(
        GrammarWriter().write(["a photo of a clerk"], GENDER).book.subset(groups=["male"])
    )
    with pytest.raises(InputError, match=r"clerk.*female"):
        eq.AttributeSpace.from_prompts(Words(), short, GENDER)
    assert "a photo of a clerk" not in eq.SpaceSet.from_prompts(
        Words(), short, GENDER, allow_partial=True
    )
    assert (
        list(eq.SpaceSet.from_prompts(Words(), short, GENDER, prompts=PROMPTS[:1])) == PROMPTS[:1]
    )
    with pytest.raises(InputError, match="no prompt of the book"):
        eq.AttributeSpace.from_prompts(
            Words(), short, eq.Attribute.load("race"), allow_partial=True
        )


def test_names_are_answered_with_what_reads_them(book):
    with pytest.raises(
        InputError, match=r"PromptBook, str were given; .*eq\.Attribute\.load\('gender'\)"
    ):
        eq.AttributeSpace.from_prompts(Words(), book, "gender")
    with pytest.raises(InputError, match=r"str, str were given; eq\.Attribute\.load\('gender'\)"):
        eq.explicit_groups("a female doctor", "gender")


class Bad:
    def __init__(self, give):
        self.encode_text = give


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (object(), "encode_text"),
        (Bad(lambda texts: np.zeros((len(texts), 4))), "zero"),
        (Bad(lambda texts: np.full((len(texts), 4), np.nan)), "NaN"),
        (Bad(lambda texts: np.ones((2, 4))), "one row per text"),
        (Bad(lambda texts: np.ones(len(texts))), "one row per text"),
        (Bad(lambda texts: np.ones((len(texts), 4))), "identical"),
    ],
)
def test_bad_encoders(book, encoder, message):
    for fit in (eq.AttributeSpace.from_prompts, eq.SpaceSet.from_prompts):
        with pytest.raises(InputError, match=message):
            fit(encoder, book, GENDER)


def test_bad_arguments(book):
    with pytest.raises(InputError, match="prototype"):
        eq.AttributeSpace.from_prompts(Words(), book, GENDER, prototype="mean")
    with pytest.raises(InputError, match="variants"):
        eq.AttributeSpace.from_prompts(
            Words(),
            eq.PromptBook.of({"p": {"male": ["a man"], "female": ["a woman"]}}),
            GENDER,
            prototype="variants",
        )
    with pytest.raises(InputError, match="book"):
        eq.AttributeSpace.from_prompts(Words(), {"p": {}}, GENDER)
    with pytest.raises(InputError, match="nothing"):
        eq.AttributeSpace.from_prompts(Words(), book, GENDER, prompts=["nothing"])


# --- Text vectors from a file --------------------------------------------------------------------------------------------


def write_vectors(path, prompts, vectors):
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({"prompt": list(prompts), "vector": list(vectors)}).replace_schema_metadata(
                {"encoder": "words"}
            ),
            path,
        )
    elif path.suffix == ".npz":
        np.savez(path, prompt=np.array(prompts), vector=vectors, encoder="words")
    else:
        save_file(
            {"vector": vectors}, path, {"prompts": json.dumps(list(prompts)), "encoder": "words"}
        )


@pytest.fixture(params=[".parquet", ".npz", ".safetensors"])
def vector_file(request, tmp_path, book):
    texts = sorted({text for _, _, entry in book.entries() for text in entry.texts})
    path = tmp_path / f"vectors{request.param}"
    write_vectors(path, texts, Words().encode_text(texts))
    return path


def test_text_vectors_stand_in_for_the_encoder(vector_file, book):
    table = TextVectors.load(vector_file)
    assert table.id == "words" and table.dim == 48
    direct = eq.AttributeSpace.from_prompts(Words(), book, BOTH)
    space = eq.AttributeSpace.from_prompts(table, book, BOTH)
    assert np.allclose(
        space.parts[0].prototypes, direct.parts[0].prototypes, atol=1e-6
    )  # rows of float32 unit length
    with pytest.raises(InputError, match="'something else'"):
        table.encode_text(["something else"])


def test_files_that_are_none(tmp_path):
    for name, content in (
        ("a.npz", b"PK"),
        ("a.parquet", b"PAR1"),
        ("a.safetensors", b"\x00" * 20),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArtefactError, match="a\\."):
            TextVectors.load(tmp_path / name)
    with pytest.raises(InputError, match="parquet"):
        TextVectors.load(tmp_path / "a.pkl")
    with pytest.raises(ArtefactError, match="no file"):
        TextVectors.load(tmp_path / "none.npz")
    np.savez(tmp_path / "o.npz", prompt=np.array(["a"], dtype=object), vector=np.ones((1, 2)))
    with pytest.raises(ArtefactError, match="allow_pickle"):
        TextVectors.load(tmp_path / "o.npz")
    np.savez(tmp_path / "n.npz", prompt=np.array(["a", "b"]), vector=np.ones((1, 2)))
    with pytest.raises(ArtefactError, match="2 prompts"):
        TextVectors.load(tmp_path / "n.npz")
    pq.write_table(
        pa.table({"prompt": ["a", "b"], "vector": [[1.0, 2.0], [1.0]]}), tmp_path / "r.parquet"
    )
    with pytest.raises(ArtefactError, match="lengths"):
        TextVectors.load(tmp_path / "r.parquet")


def test_real_clip_vectors():
    """CLIP's own vectors of "a Man", "a Woman", ...: the space tells real photographs of men and women apart."""
    table = TextVectors.load(shared_data("embeddings/text_clip_vitb32_objects.npz"))
    book = eq.PromptBook.of(
        {"a Person": {"male": ["a Man", "a Boy"], "female": ["a Woman", "a Girl"]}}
    )
    space = eq.AttributeSpace.from_prompts(table, book, GENDER)
    with np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False) as file:
        images = file["image"].astype(np.float32)
        male = file["attrs"][:, list(file["attr_names"]).index("Male")] > 0
    side = images @ (space.parts[0].prototypes[0] - space.parts[0].prototypes[1])
    assert (side[male].mean() - side[~male].mean()) / side.std() > 1.5
    assert geometry.split(images[:5].astype(np.float64), space.basis)[0].max() < 0.5


# --- The commands --------------------------------------------------------------------------------------------------------


def test_from_nothing_to_a_space_without_a_key(tmp_path):
    """Own attribute, own prompts, offline: one command for the book, one for the space."""
    toml, book, vectors, out = (
        tmp_path / "hair.toml",
        tmp_path / "book.json",
        tmp_path / "v.npz",
        tmp_path / "space.safetensors",
    )
    toml.write_text(
        'name = "hair"\n[groups.blond]\nadjectives = ["blond", "fair-haired"]\n[groups.dark-haired]\n'
    )
    (tmp_path / "prompts.txt").write_text("# people\na photo of a doctor\n\na photo of a person\n")
    result = run(
        "prompts", "write", "--from", tmp_path / "prompts.txt", "-a", toml, "-o", book, "--json"
    )
    assert result.returncode == 0 and json.loads(result.stdout)["prompts"] == 2
    assert (
        run("prompts", "check", book, "-a", toml, "--from", tmp_path / "prompts.txt").returncode
        == 0
    )
    texts = run("prompts", "show", book, "--texts").stdout.splitlines()
    write_vectors(vectors, texts, Words().encode_text(texts))
    result = run("fit", "-a", toml, "-b", book, "--vectors", vectors, "-o", out, "--json")
    facts = json.loads(result.stdout)
    assert (
        facts["groups"] == ["blond", "dark-haired"]
        and facts["rank"] == 1
        and facts["encoder"] == "words"
    )
    assert eq.AttributeSpace.load(out).book_hash == eq.PromptBook.load(book).hash
    result = run(
        "fit",
        "-a",
        toml,
        "-b",
        book,
        "--vectors",
        vectors,
        "-o",
        out,
        "--force",
        "--scope",
        "per-prompt",
        "--prototype",
        "anchor",
        "--kappa",
        "inf",
    )
    assert (
        result.returncode == 0
        and "2 prompts" in result.stdout
        and set(eq.SpaceSet.load(out)) == {"a photo of a doctor", "a photo of a person"}
    )


def test_show_merge_and_diff(tmp_path):
    listed = json.loads(run("prompts", "show", "--json").stdout)
    assert set(listed) == set(eq.PromptBook.curated_names())
    out = tmp_path / "m.json"
    done = run("prompts", "merge", "people-gender", "people-age", "-o", out)
    merged = eq.PromptBook.load(out)
    assert done.returncode == 0 and merged.statistics()["hash"] in done.stdout
    assert merged.groups == ("male", "female", "young", "old") and len(merged.sources) == 2
    assert (
        "+ a photo of a person | young"
        in run("prompts", "show", "people-gender", "--diff", out).stdout
    )
    assert (
        "a photo of a woman"
        in run("prompts", "show", "people-gender", "--prompt", "a photo of a person").stdout
    )
    assert "curated" in run("prompts", "show", "people-gender").stdout
    before = out.read_bytes()
    assert (
        run(
            "prompts", "write", "a photo of a person", "--writer", "book", "-a", "race", "-o", out
        ).returncode
        == 0
    )
    assert len(eq.PromptBook.load(out).groups) == 11 and before != out.read_bytes()


def test_entries_that_are_there_are_kept(tmp_path):
    out = tmp_path / "b.json"
    mine = eq.PromptBook.of(
        {"a doctor": {"male": ["a doctor who is male"], "female": ["a doctor who is female"]}}
    )
    mine.save(out)
    assert run("prompts", "write", "a doctor", "a nurse", "-o", out).returncode == 0
    kept = eq.PromptBook.load(out)
    assert kept["a doctor"] == mine["a doctor"] and kept.prompts.keys() == {"a doctor", "a nurse"}
    assert run("prompts", "write", "a doctor", "-o", out, "--force").returncode == 0
    assert eq.PromptBook.load(out)["a doctor"]["male"].anchor == "a male doctor"
    released = tmp_path / "LLM.json"
    released.write_text(
        json.dumps(
            {"classification": {"x": {"a doctor": {"male": {"t_g": "a male doctor", "T_g": []}}}}}
        )
    )
    before = released.read_bytes()
    result = run("prompts", "write", "a nurse", "-o", released)
    assert (
        result.returncode == 2 and "released" in result.stderr and released.read_bytes() == before
    )


def test_square_brackets_are_words(tmp_path):
    out = tmp_path / "[b].json"
    eq.PromptBook.of(
        {"a doctor [/x]": {"male": ["a [/bold] doctor"], "[/f]": ["a"]}}, note="[/n]"
    ).save(out)
    shown, checked = run("prompts", "show", out), run("prompts", "check", out)
    assert shown.returncode == 0 and "[/n]" in shown.stdout and checked.returncode == 1
    assert (
        "1 entries are of groups of another attribute" in checked.stdout
        and "Traceback" not in shown.stderr + checked.stderr
    )


def test_user_errors_are_messages(tmp_path, capsys):
    (tmp_path / "newer.json").write_text('{"kind": "equipoise prompt book", "format": 9}')
    (tmp_path / "bad.txt").write_bytes(b"\xff\xff")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    wrong = tmp_path / "wrong.json"
    eq.PromptBook.of(
        {"a doctor": {"male": ["a female doctor"], "female": ["a female nurse"]}}
    ).save(wrong)
    for arguments, status, message in (
        (("prompts", "write"), 2, "no prompt"),
        (("prompts", "write", "a doctor", "--writer", "pen"), 2, "pen"),
        (("prompts", "write", "a doctor", "-a", "hair"), 2, "hair"),
        (("prompts", "write", "a doctor", "--dry-run"), 2, "llm"),
        (("prompts", "write", "a red car", "-o", tmp_path / "car.json"), 2, "nothing was saved"),
        (("prompts", "write", "--from", tmp_path / "none.txt"), 2, "cannot be read"),
        (("prompts", "write", "--from", tmp_path), 2, "cannot be read"),
        (("prompts", "write", "--from", tmp_path / "bad.txt"), 2, "UTF-8"),
        (("prompts", "write", "--from", tmp_path / "empty.txt"), 2, "no prompt"),
        (("prompts", "write", "a doctor", "-o", tmp_path / "newer.json"), 2, "schema 9"),
        (
            ("prompts", "write", "a doctor", "-o", "/proc/x.json"),
            2,
            "/proc/x.json cannot be written",
        ),
        (
            ("fit", "-a", "gender", "-b", "people-gender", "--model", "mini", "--kappa", "nan"),
            2,
            "--kappa nan",
        ),
        (
            ("fit", "-a", "gender", "-b", "people-gender", "--model", "mini", "--tolerance", "2"),
            2,
            "--tolerance 2.0",
        ),
        (("prompts", "check", wrong), 1, ""),
        (("prompts", "check", "people-age"), 2, "young, old"),
        (("prompts", "show", "no-such-book"), 2, "people-gender"),
        (("fit", "-a", "gender", "-b", "people-gender"), 2, "--vectors"),
        (
            ("fit", "-a", "age", "-b", "people-gender", "--vectors", tmp_path / "x.npz"),
            2,
            "no file",
        ),
        (
            ("fit", "-a", "gender", "-b", "people-gender", "--vectors", tmp_path / "x.pkl"),
            2,
            "parquet",
        ),
    ):
        assert typed(*arguments) == status, arguments
        told = capsys.readouterr().err
        assert message in told and "Traceback" not in told, (arguments, told)
    assert not (tmp_path / "car.json").exists()
    problems = json.loads(run("prompts", "check", wrong, "--json").stdout)["problems"]
    assert [(p["group"], p["reason"]) for p in problems] == [
        ("male", "it says 'female' and should say 'male'"),
        ("female", "it changes 'doctor' to 'nurse'"),
    ]


@pytest.fixture(scope="module")
def real_encoders(tmp_path_factory):
    component("transformers")
    component("sentence_transformers")
    folder = tmp_path_factory.mktemp("encoders")
    return {
        "hf": f"hf:{models.clip(folder / 'clip', tokens=77)}",
        "st": f"st:{models.sentence_texts(folder)}",
    }


@pytest.mark.parametrize("prototype", ["both", "anchor", "variants"])
@pytest.mark.parametrize("kind", ["hf", "st"])
def test_spaces_from_real_encoders(real_encoders, kind, prototype):
    encoder = eq.load_encoder(real_encoders[kind])
    book = eq.PromptBook.curated("celeba-gender-age")
    both = eq.Attribute.load("gender & age")
    space = eq.AttributeSpace.from_prompts(encoder, book, both, prototype=prototype)
    spaces = eq.SpaceSet.from_prompts(encoder, book, both, prototype=prototype)
    assert space.encoder.fingerprint == encoder.fingerprint
    assert len(spaces) == 2
    anchors = [[book[prompt][group].anchor for group in both.groups] for prompt in book.prompts]
    if prototype == "anchor":  # by hand: unit anchors, averaged over the prompts
        rows = np.stack([encoder.encode_text(texts) for texts in anchors]).astype(float)
        np.testing.assert_allclose(space.parts[0].prototypes, unit(rows.sum(0)), atol=1e-6)
    c = eq.certify(
        encoder.encode_text(anchors[0]), spaces[next(iter(book.prompts))], encoder=encoder
    )
    assert (c.leakage <= c.leakage_before / 2 + 1e-6).all()


@pytest.mark.parametrize("scope", ["shared", pytest.param("per-prompt", marks=pytest.mark.slow)])
def test_fit_with_a_real_encoder_from_the_command_line(real_encoders, scope, tmp_path):
    out = tmp_path / "space.safetensors"
    command = [
        "fit",
        "-a",
        "gender",
        "-b",
        "occupations-gender",
        "--model",
        real_encoders["hf"],
        "-o",
        str(out),
        "--scope",
        scope,
        "--json",
    ]
    result = run(*command)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["groups"] == ["male", "female"]
    encoder = eq.load_encoder(real_encoders["hf"])
    loaded = (eq.AttributeSpace if scope == "shared" else eq.SpaceSet).load(out, encoder=encoder)
    assert loaded.dim == encoder.dim
    with pytest.raises(eq.errors.EncoderMismatchError):
        type(loaded).load(out, encoder=eq.load_encoder(real_encoders["st"]))
