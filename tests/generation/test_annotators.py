"""Annotators: real BLIP-2 and CLIP of small random weights, a real server; how answers in words are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.errors import InputError, ServiceError
from equipoise.generation._annotators.annotator import group_in
from equipoise.generation._annotators.vision_llm import VisionLLM
from equipoise.generation._annotators.zero_shot import ZeroShot
from equipoise.generation._manifest import DrawnPicture, Manifest
from tests.helpers import models
from tests.helpers.chat_server import ChatServer
from tests.helpers.common import component

GENDER = eq.Attribute.load("gender")


@pytest.fixture
def manifest(tmp_path) -> Manifest:
    """A run's folder with six pictures."""
    rng = np.random.default_rng(0)
    found = Manifest(tmp_path)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)).save(
            tmp_path / f"{i}.png"
        )
    found.add(
        DrawnPicture(
            image=f"{i}.png",
            prompt="a photo of a doctor",
            method="none",
            seed=i,
            explicit_group="",
            attempt=0,
            number=i,
        )
        for i in range(6)
    )
    return found


@pytest.mark.parametrize(
    ("answer", "group"),
    [
        ("female", "female"),
        ("a Female.", "female"),
        ("male", "male"),
        ("The person in this image is a woman", "female"),
        ("he is a man", "male"),
        ("male or female", "unsure"),
        ("I cannot tell", "unsure"),
        ("", "unsure"),
        ("human", "unsure"),
    ],
)
def test_an_answer_is_read_by_whole_words(answer, group):
    assert group_in(answer, GENDER) == group


def test_answers_of_other_attributes():
    age = eq.Attribute.load("age")
    assert group_in("the person looks young", age) == "young"
    assert group_in("young male", GENDER & age) == "young male"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    component("transformers")
    return eq.load_encoder(
        f"hf:{models.clip(tmp_path_factory.mktemp('clip'), tokens=77)}", device="cpu"
    )


class TestZeroShot:
    def test_answers_and_margin(self, encoder, manifest):
        answers = ZeroShot(encoder, GENDER).annotate(manifest)
        assert len(answers) == 6 and set(answers.values()) <= {"male", "female"}
        assert set(ZeroShot(encoder, GENDER, margin=2.0).answers([manifest.folder / "0.png"])) == {
            "unsure"
        }

    def test_none_is_asked_twice(self, encoder, manifest):
        annotator = ZeroShot(encoder, GENDER)
        first = annotator.annotate(manifest)
        annotator.answers = None  # asking again would fail
        assert annotator.annotate(manifest) == first
        (manifest.folder / "3.png").unlink()
        with pytest.raises(InputError, match=r"no longer there, first 3\.png"):
            annotator.annotate(manifest)


def test_blip2_answers_the_papers_question(tmp_path, manifest):
    """A BLIP-2 of the real classes with random weights: what it says is nonsense, and so unsure; what it is asked is the paper's question."""
    component("transformers")
    from equipoise.generation._annotators.blip2 import Blip2

    annotator = Blip2(str(models.blip2_vqa(tmp_path / "blip2")), GENDER, device="cpu")
    assert annotator.question == "What is the perceived gender of the person in this image?"
    answers = annotator.annotate(manifest)
    assert len(answers) == 6 and set(answers.values()) <= {"male", "female", "unsure"}
    with pytest.raises(InputError, match="cannot be loaded as a BLIP-2"):
        Blip2(str(tmp_path / "nothing"), GENDER, device="cpu", offline=True)


class VisionServer(ChatServer):
    """Answers by the brightness of the picture it is shown."""

    def content(self, body: dict, fault: str | None) -> str:
        import base64
        import io

        (message,) = body["messages"]
        picture, text = message["content"]
        assert "perceived gender" in text["text"] and "male, female or unsure" in text["text"]
        data = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
        with Image.open(io.BytesIO(data)) as image:
            assert not getattr(image, "text", None)  # no provenance leaves the house
            bright = np.asarray(image).mean() > 128
        answer = "female" if bright else "male"
        return json.dumps({"answer": answer}) if "response_format" in body else f"It is a {answer}."


class TestVisionLLM:
    @pytest.fixture
    def lit(self, manifest) -> dict[str, str]:
        for i in range(6):
            Image.fromarray(np.full((8, 8, 3), 250 - i if i % 2 else 5 + i, np.uint8)).save(
                manifest.folder / f"{i}.png"
            )
        return {f"{i}.png": "female" if i % 2 else "male" for i in range(6)}

    @pytest.mark.parametrize("fault", [None, "no structured", "429", "500", "cut"])
    def test_answers(self, manifest, lit, fault):
        component("openai")
        with VisionServer(GENDER, lambda body, nth: fault if nth == 1 else None) as server:
            assert (
                VisionLLM("m", GENDER, base_url=server.url, api_key="k").annotate(manifest) == lit
            )

    def test_a_refused_picture_is_unsure(self, manifest, lit):
        component("openai")
        with VisionServer(GENDER, lambda body, nth: "refusal") as server:
            assert set(
                VisionLLM("m", GENDER, base_url=server.url, api_key="k").annotate(manifest).values()
            ) == {"unsure"}

    def test_a_server_that_dies_costs_no_label(self, manifest, lit):
        component("openai")
        seen: set[str] = set()

        def dying(body: dict, nth: int) -> str | None:
            seen.add(json.dumps(body))
            return "500" if len(seen) > 3 else None

        with VisionServer(GENDER, dying) as server:
            annotator = VisionLLM(
                "m", GENDER, base_url=server.url, api_key="k", retries=0, concurrency=1
            )
            with pytest.raises(ServiceError, match="run it again"):
                annotator.annotate(manifest)
        kept = next((manifest.folder / "labels").glob("*.csv")).read_text().splitlines()
        assert len(kept) == 1 + 3
        with VisionServer(GENDER) as server:
            assert (
                VisionLLM("m", GENDER, base_url=server.url, api_key="k").annotate(manifest) == lit
            )
            assert len(server.requests) == 3


def test_unknown_kinds():
    for spec in ("blip2", "encoder:", "people:x.csv", "x:y"):
        with pytest.raises(InputError, match="pass blip2:ID-or-folder"):
            eq.generation.load_annotator(spec, GENDER)
