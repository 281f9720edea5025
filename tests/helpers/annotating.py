"""Small projects, and a real server for them on loopback."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager

import numpy as np
from PIL import Image, PngImagePlugin

from equipoise._annotate import Project, people, serving
from equipoise._bench.annotate import AnnotatorClient
from equipoise._serving.listening import listen

NAMES = ("anna", "ben", "chris")


def make_folder(folder, images=6, manifest=True, pixels=16):
    """Pictures of noise; with a manifest, of two prompts and three methods, which their names and their PNG text tell too."""
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    lines = []
    for i in range(images):
        prompt, method = (
            ("a photo of a doctor", "a photo of a nurse")[i % 2],
            ("none", "closed-form", "sfid")[i % 3],
        )
        name = f"{method}-{i}.png"
        info = PngImagePlugin.PngInfo()
        info.add_text("prompt", prompt)
        info.add_text("method", method)
        Image.fromarray(rng.integers(0, 255, (pixels, pixels, 3), dtype=np.uint8)).save(
            folder / name, pnginfo=info
        )
        lines.append({"image": name, "prompt": prompt, "method": method, "seed": i, "attempt": 0})
    if manifest:
        (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@contextmanager
def served(project, names=NAMES, scan_every=3600.0, **options):
    """A server in a thread of this process, and a client for each name."""
    tokens = {name: people.invite(project.database, name, renew=True) for name in names}
    with listen("127.0.0.1", 0) as listening:
        server = serving.server(project, scan_every=scan_every, **options)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        while not server.started:
            time.sleep(0.01)
        clients = {name: AnnotatorClient(address, token) for name, token in tokens.items()}
        try:
            yield clients
        finally:
            for client in clients.values():
                client.close()
            server.should_exit = True
            thread.join()


def opened(folder, **options):
    return Project.open(make_folder(folder), **options)
