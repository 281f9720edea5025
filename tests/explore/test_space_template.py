"""The template of a Hugging Face Space: the very command of its Dockerfile serves the page, to everybody and under its own name alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers.common import ROOT, component, embedded_model, typed
from tests.helpers.exploring import ExploreClient

TEMPLATE = ROOT / "examples" / "space"
NAME = "me-explore.hf.space"
SEARCH = {"text": "a photo of a doctor", "attribute": "gender"}


def command() -> str:
    (found,) = re.findall(r"^CMD (.+)$", (TEMPLATE / "Dockerfile").read_text(), re.M)
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The page as the Dockerfile starts it, but on loopback and on a port that is free."""
    component("starlette")
    component("uvicorn")
    embedded_model()
    from equipoise_mini import gallery

    folder = tmp_path_factory.mktemp("space")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    given = {"PATH": path, "SPACE_HOST": NAME, "LISTEN": "127.0.0.1", "PORT": "0"}
    with subprocess.Popen(
        ["sh", "-c", f"exec {command()}"],
        cwd=folder,
        env=os.environ | given,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            told = json.loads(process.stdout.readline())
            assert told["images"] == pq.read_metadata(gallery().table).num_rows
            assert "#" not in told["link"]
            yield ExploreClient(f"{told['link']}#key=of-another-day")
        finally:
            process.terminate()


@pytest.mark.slow
def test_everybody_may_search_under_the_name_of_the_site(served):
    there = {"Host": NAME, "Origin": f"https://{NAME}"}
    status, headers, page = served.send("GET", "/", Host=NAME)
    assert status == 200 and b"<title>" in page
    assert headers["Content-Security-Policy"].endswith("frame-ancestors https://huggingface.co")
    about = json.loads(served.send("GET", "/api/about", **there)[2])
    assert about["prompts_file"] is None
    status, _, data = served.send("POST", "/api/search", json.dumps(SEARCH), **there)
    before, after = [json.loads(line) for line in data.splitlines()]
    assert status == 200 and len(before["images"]) == len(after["images"]) == 20
    status, headers, _ = served.send("GET", "/picture/0", **there)
    assert status == 200 and headers["Content-Type"] == "image/jpeg"


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.org"},
        {"Host": f"{NAME}.example.org"},
        {"Host": f"other.{NAME}"},
        {"Host": NAME, "Origin": "https://example.org"},
        {"Host": NAME, "Sec_Fetch_Site": "cross-site"},
    ],
)
def test_other_names_and_other_sites_are_refused(served, headers):
    assert served.send("POST", "/api/search", json.dumps(SEARCH), **headers)[0] == 403
    assert served.send("GET", "/picture/0", **headers)[0] == 403


@pytest.mark.slow
def test_nothing_is_written_for_those_who_visit(served):
    assert served.send("POST", "/api/prompt", json.dumps(SEARCH), Host=NAME)[0] == 409


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines; pass --public"),
        (["--public", ""], "is not the name of a site; pass it as browsers send it"),
        (["--public", f"https://{NAME}"], "without https://"),
        (["--public", f"{NAME}:7860"], "without a port"),
        (["--public", NAME, "--prompts-file", "p.txt"], "leave it out of a public page"),
    ],
)
def test_a_page_is_public_only_as_it_was_said(options, message, capsys):
    component("starlette")
    component("uvicorn")
    assert typed("explore", *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_card_is_one_of_a_docker_space_on_the_port_of_the_command():
    _, front, _ = (TEMPLATE / "README.md").read_text().split("---\n")
    card = component("yaml").safe_load(front)
    assert card["sdk"] == "docker" and f"${{PORT:-{card['app_port']}}}" in command()
    assert len(card["short_description"]) <= 60  # what the hub shows
