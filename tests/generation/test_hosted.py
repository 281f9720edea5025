"""A generator behind a server on loopback that misbehaves: nothing is lost or doubled, and no key is seen."""

from __future__ import annotations

import io
import json
import logging

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.errors import InputError, ServiceError
from equipoise.generation import draw, read_provenance
from equipoise.generation._hosted import HostedPainter, ImageService, hosted_painter
from equipoise.generation._manifest import Manifest
from equipoise.generation._painters import load_painter
from equipoise.generation._plan import make_plan
from tests.helpers.common import component
from tests.helpers.image_server import ImageServer, picture

component("openai")

GENDER = eq.Attribute.load("gender")
DOCTOR, NURSE = "a photo of a doctor", "a photo of a nurse"
KEY = "sk-a-secret-that-nobody-may-see"
SIDE = 16
PASSING = ("429", "500", "hang", "wrong size", "not an image", "not base64", "an address", "huge")


def painter(server: ImageServer, **options) -> HostedPainter:
    given = {"base_url": server.url, "api_key": KEY, "timeout": 1.0, "retries": 3}
    service = ImageService("small", **{**given, **options})
    service.largest = 2**19
    return HostedPainter(service, SIDE)


def plan(images: int = 4, methods=("balanced",)):
    return make_plan("hosted:small", GENDER, [DOCTOR, NURSE], list(methods), images, size=SIDE)


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def require_whole(folder, images: int = 4) -> None:
    """Every slot has one picture, and it is the one of its wording and seed."""
    manifest = Manifest(folder)
    assert len(manifest.pictures) == 2 * 2 * images
    assert len(list((folder / "images").rglob("*.png"))) == 2 * 2 * images
    for one in manifest.pictures.values():
        said = read_provenance(folder / one.image)
        assert said is not None
        wanted = pixels(picture(said.wording or one.prompt, one.seed, SIDE))
        assert np.array_equal(pixels((folder / one.image).read_bytes()), wanted)


def require_no_key(folder, *texts: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
    for text in texts:
        assert KEY not in text


def test_what_passes_is_asked_for_again_and_each_picture_comes_once(tmp_path, caplog):
    def once_each(body, nth):
        return PASSING[body["seed"]] if nth == 1 else None

    caplog.set_level(logging.DEBUG)
    with ImageServer(once_each) as server:
        draw(plan(len(PASSING)), painter(server), GENDER, tmp_path)
        require_whole(tmp_path, len(PASSING))
        assert set(server.made.values()) == {1}
        assert max(server.tries.values()) == 2
        assert server.asked[0][0]["authorization"] == f"Bearer {KEY}"
    require_no_key(tmp_path, caplog.text)


def test_a_picture_that_never_comes_costs_no_other_and_is_asked_for_again(tmp_path):
    def refuses(body, nth):
        return "400 out of memory for such prompts" if body["seed"] == 1 else None

    with (
        ImageServer(refuses) as server,
        pytest.raises(ServiceError, match="4 of 16 pictures were not drawn"),
    ):
        draw(plan(), painter(server), GENDER, tmp_path)
    assert len(Manifest(tmp_path).pictures) == 12
    assert set(server.made.values()) == {1}
    with ImageServer() as server:
        draw(plan(), painter(server), GENDER, tmp_path)
        assert len(server.asked) == 4
    require_whole(tmp_path)


def test_a_server_that_dies_keeps_what_came_and_a_run_goes_on(tmp_path):
    def dies(body, nth):
        return "401" if body["prompt"] == NURSE and body["seed"] > 1 else None

    with (
        ImageServer(dies) as server,
        pytest.raises(ServiceError, match="does not accept the key") as caught,
    ):
        draw(plan(), painter(server), GENDER, tmp_path)
    require_no_key(tmp_path, str(caught.value))
    assert len(Manifest(tmp_path).pictures) == 6  # four of the doctor, two of the nurse
    with ImageServer() as server:
        draw(plan(), painter(server), GENDER, tmp_path)
        assert len(server.asked) == 10
    require_whole(tmp_path)


def test_fields_that_a_server_does_not_know_are_left_out(tmp_path):
    def knows(body, nth):
        for field in ("seed", "response_format"):
            if field in body:
                return f"400 Unknown parameter: '{field}'."
        return None

    with ImageServer(knows) as server:
        draw(plan(images=3), painter(server), GENDER, tmp_path)
        assert len(Manifest(tmp_path).pictures) == 12
        accepted = [headers["idempotency-key"] for headers, body in server.asked if len(body) == 4]
        assert len(accepted) == len(set(accepted)) == 12  # pictures of one prompt are many
        assert len(server.asked) <= 12 + 2 * 3  # the first batch learns it, and the others know


def test_methods_that_edit_states_are_refused_before_anything_is_asked_for(tmp_path):
    with ImageServer() as server:
        for method in ("closed-form", "balanced:how=states"):
            with pytest.raises(InputError, match="takes prompts alone; pass balanced"):
                draw(plan(1, (method,)), painter(server), GENDER, tmp_path / method)
        assert len(server.asked) == 0


def test_a_hosted_generator_by_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = load_painter("hosted:small", base_url="http://me:word@127.0.0.1:1/v1", size=64)
    assert made.id == "hosted:small at http://127.0.0.1:1/v1" and made.size == 64
    with pytest.raises(InputError, match="a hosted generator takes no steps"):
        load_painter("hosted:small", steps=3)
    with pytest.raises(InputError, match="is not this machine"):
        hosted_painter("small", "http://example.org/v1", None, {}, offline=True)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="there is no key for"):
        load_painter("hosted:small").require([DOCTOR])


def test_the_command_line_draws_from_a_server(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from equipoise._cli import app

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ImageServer() as server:
        typed = ["generate", DOCTOR, "--out", str(tmp_path / "run"), "--size", "16", "-n", "2"]
        typed += ["--pipeline", "hosted:small", "--pipeline-url", server.url]
        result = CliRunner().invoke(app, [*typed, "--method", "balanced", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"]["model"] == "hosted:small"
    require_no_key(tmp_path, result.output)
