"""``eq.explore``: a page on this machine to search photographs, as they are and balanced."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._explore.collection import collect_rows, read_collection
from equipoise._explore.explorer import Explorer
from equipoise._explore.prompt_list import PromptFile
from equipoise._paths import TAKEN, path_of
from equipoise._serving.listening import LOOPBACK, address, listen
from equipoise._serving.server import require_extra, server
from equipoise._stores import Store
from equipoise._verbs.models import MINI, check_encoder_options, open_encoder
from equipoise._verbs.search import balancing_context, fit_balanced, search
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

HOST = "127.0.0.1"
ATTRIBUTES = ("gender", "age", "skin tone", "race")
HEIGHT = 900  # pixels of the frame in a notebook
HUGGING_FACE = "https://huggingface.co"  # whose pages frame a Space
NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")  # of a site, as browsers send it
STARTING = 30.0  # seconds that a server may take to start

Where = str | os.PathLike[str]


class Exploration:
    """A page that is being served, until ``close``. In a notebook it shows itself.

    url: the address with its key; whoever opens it on this machine sees the page.
    """

    def __init__(self, url: str, stop: Callable[[], None]):
        self.url: str = url
        self._stop = stop

    def close(self) -> None:
        """Stop serving."""
        self._stop()

    def __enter__(self) -> Exploration:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Exploration(url={self.url!r})"

    def _repr_html_(self) -> str:
        from html import escape

        return (
            f'<iframe src="{escape(self.url)}" width="100%" height="{HEIGHT}"'
            ' title="equipoise explore" allow="clipboard-write" style="border: 0"></iframe>'
        )


def explore(
    index: Where | np.ndarray | Store | None = None,
    *,
    model: str | None = None,
    encoder: Any = None,
    attribute: str | Attribute | Sequence[str | Attribute] = ATTRIBUTES,
    pictures: Sequence[Any] | None = None,
    embeddings: Where | None = None,
    root: Where | None = None,
    labels: Where | None = None,
    group_columns: Sequence[str] = (),
    prompts_file: Where | None = None,
    port: int = 0,
    **encoder_options: Any,
) -> Exploration:
    """Serve a page on this machine where photographs are searched as they are and balanced.

    index: a folder of pictures, a .csv or .parquet table, a store, a .npy file, or unit rows (n,
    d); None for the people that come with mini, who do not exist. pictures: for rows, a path or
    bytes per row. model or encoder: what encodes texts, and pictures that are not embedded yet.
    attribute: those that the page offers, the first one first. labels, group_columns: who is in
    each image, where that is known; otherwise groups are as the model perceives them. prompts_file:
    the text file that "add to audit" writes to. encoder_options: device, dtype, batch_size, ...

    The page answers on loopback alone, to those who know its key. Returns an ``Exploration``:
    ``url``, ``close()``, and in a notebook the page itself.
    """
    check_encoder_options(explore, encoder_options)
    require_extra("explore")
    explorer = make_explorer(
        index,
        model=model,
        encoder=encoder,
        attributes=_attributes(attribute),
        pictures=pictures,
        embeddings=_path(embeddings),
        root=_path(root),
        labels=_path(labels),
        group_columns=group_columns,
        **encoder_options,
    )
    prompts = None if prompts_file is None else PromptFile(Path(prompts_file))
    return _start(explorer, port, prompts)


def make_explorer(
    index: Any,
    *,
    model: str | None = None,
    encoder: Any = None,
    attributes: Sequence[Attribute],
    pictures: Sequence[Any] | None = None,
    embeddings: Path | None = None,
    root: Path | None = None,
    labels: Path | None = None,
    group_columns: Sequence[str] = (),
    **encoder_options: Any,
) -> Explorer:
    """Read the photographs, encode those that are not yet, and fit the first attribute."""
    if encoder is None:
        encoder = open_encoder(model or _made_by(index), default=MINI, **encoder_options)
    elif model is not None:
        raise InputError("`model` and `encoder` were both given; pass one of the two")
    if isinstance(index, np.ndarray):
        collection = collect_rows(index, pictures)
    else:
        where = index.folder if isinstance(index, Store) else index
        where = None if where is None else path_of(where, "index", f"{TAKEN}, or pass rows (n, d)")
        collection = read_collection(
            where,
            encoder,
            embeddings=embeddings,
            root=root,
            labels=labels,
            group_columns=group_columns,
        )
    explorer = Explorer(
        collection,
        encoder,
        attributes,
        search=search,
        fit_balanced=fit_balanced,
        make_context=balancing_context,
    )
    explorer.prepare()
    return explorer


def serve(
    explorer: Explorer,
    port: int,
    ready: Callable[[str], None],
    prompts: PromptFile | None = None,
    *,
    host: str = HOST,
    public: str | None = None,
) -> None:
    """Serve until stopped. ready: called with the link once requests are taken.

    public: a name under which everybody may see the page, without a key. ``check_public`` says
    what goes with it.
    """
    from equipoise._explore.site import application

    if public is None:
        key = secrets.token_urlsafe(24)
        site = application(explorer, key, prompts=prompts)
    else:
        key = None
        framers = HUGGING_FACE if public.endswith(".hf.space") else ""
        site = application(explorer, None, framers=framers, names=(public,))
    # Ctrl-C may come before uvicorn listens for it; it raises one more when it has stopped
    with listen(host, port) as listening, suppress(KeyboardInterrupt):
        at = address(host, listening)
        ready(at if key is None else _link(at, key))
        server(site).run(sockets=[listening])


def check_public(host: str, public: str | None, prompts: Path | None) -> None:
    """Raise where a page would be served to others than was said."""
    if public is None:
        if host not in LOOPBACK:
            raise InputError(
                f"{host} can be reached from other machines; pass `public` with the name of the"
                " site as well, and everybody may see every picture. Legal without it:"
                f" {', '.join(LOOPBACK)}"
            )
        return
    if not NAME.fullmatch(public):
        raise InputError(
            f"public={public!r} is not the name of a site; pass it as browsers send it, in small"
            " letters, without https:// and without a port: me-explore.hf.space"
        )
    if prompts is not None:
        raise InputError(
            "`prompts_file` would be written to by everybody; leave it out of a public page"
        )


def _start(explorer: Explorer, port: int, prompts: PromptFile | None) -> Exploration:
    """Serve from a thread of this process, inside notebooks too."""
    from equipoise._explore.site import application
    from equipoise._serving.guard import NOTEBOOKS

    key = secrets.token_urlsafe(24)
    listening = listen(HOST, port)
    running = server(application(explorer, key, prompts=prompts, framers=NOTEBOOKS))
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()

    def stop() -> None:
        running.should_exit = True
        thread.join(STARTING)
        listening.close()

    return Exploration(_link(address(HOST, listening), key), stop)


def _link(at: str, key: str) -> str:
    """Return the link that opens the page; what follows # is never sent to a server."""
    return f"{at}#key={key}"


def _made_by(index: Any) -> str | None:
    """Return the model that a store names as its own, so that nobody needs to."""
    if isinstance(index, Store):
        return index.encoder.id or None
    if isinstance(index, str | os.PathLike) and (Path(index) / "equipoise.json").is_file():
        from equipoise._stores import open_store

        return open_store(index).encoder.id or None
    return None


def _attributes(given: str | Attribute | Sequence[str | Attribute]) -> list[Attribute]:
    listed = [given] if isinstance(given, str | Attribute) else list(given)
    return [one if isinstance(one, Attribute) else Attribute.load(one) for one in listed]


def _path(given: Any) -> Path | None:
    return None if given is None else Path(given)
