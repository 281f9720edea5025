"""A small collection with a real encoder, and a real server for it on loopback."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pandas as pd

import equipoise as eq
from equipoise._audit.embedded_gallery import find_gallery
from equipoise._verbs.explore import ATTRIBUTES, make_explorer
from tests.helpers.common import embedded_file


class ExploreClient:
    """What a browser asks, without one."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        self.address, self.netloc = f"http://{parts.netloc}/", parts.netloc
        self.key = parse_qs(parts.fragment)["key"][0]

    def send(self, method, path, body=None, **headers):
        """Status, headers and bytes of one request; the key goes with it unless another does."""
        connection = http.client.HTTPConnection(self.netloc, timeout=120)
        given = {"Authorization": f"Bearer {self.key}"}
        if body is not None:
            given["Content-Type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        response = connection.getresponse()
        found = response.status, response.headers, response.read()
        connection.close()
        return found

    def post(self, path, fields):
        return self.send("POST", path, json.dumps(fields))

    def parts(self, path, fields):
        """The documents of a streamed answer, which must be well."""
        status, _, data = self.post(path, fields)
        assert status == 200, data
        return [json.loads(line) for line in data.splitlines()]

    def picture(self, place, key=None, **query):
        given = "&".join(f"{name}={value}" for name, value in query.items())
        return self.send("GET", f"/picture/{place}?key={key or self.key}&{given}")


def write_people(folder, count=300):
    """A folder of the gallery's pictures, under hostile names too, and the table of who is in them."""
    gallery = embedded_file(find_gallery)
    table = pd.read_parquet(gallery.table).sample(count, random_state=0)
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for i, data in enumerate(table["image"]):
        content = data["bytes"] if isinstance(data, dict) else data
        name = f"{i:04}.jpg"
        if i % 50 == 0:
            name = f"<img src=x onerror=alert({i})> & {i}.jpg"
        (folder / name).write_bytes(content)
        names.append(name)
    return pd.DataFrame({"path": names, "gender": table["gender"].to_numpy()})


def people_explorer(folder=None, attributes=ATTRIBUTES, **options):
    """An explorer of a folder; of the gallery without one."""
    named = [eq.Attribute.load(name) for name in attributes]
    return make_explorer(folder, attributes=named, **options)


@contextmanager
def exploring(*given, **options):
    """A page that is served, and a client for it."""
    with eq.explore(*given, **options) as page:
        yield page, ExploreClient(page.url)
