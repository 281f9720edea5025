"""Share spaces, operators and books on the Hugging Face hub, each with a card.

huggingface_hub is imported only when it is used.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from equipoise.errors import ArtefactError, MissingExtraError

if TYPE_CHECKING:
    from equipoise._space import AttributeSpace
    from equipoise.methods import Operator
    from equipoise.prompts._prompt_book import PromptBook


class Kind(NamedTuple):
    """A kind of artefact: its file in a repository, what it is called, and what loads its file."""

    file: str
    name: str
    loader: str


SPACE = Kind("space.safetensors", "an attribute space", "AttributeSpace.load")
OPERATOR = Kind("operator.safetensors", "an operator", "eq.methods.load")
BOOK = Kind("book.json", "a prompt book", "PromptBook.load")

_CARD = """---
library_name: equipoise
tags:
- fairness
- clip
---
# {title} for equipoise

{facts}

```python
import equipoise as eq
{lines}
```

What it removes is perceived or linguistic: what texts say and a model sees, not who a person is.
Lower skew is not the same as fair.
"""


class _Saved(Protocol):
    def save(self, path: Path, /) -> None: ...


def space_card(space: AttributeSpace, repo_id: str) -> str:
    """Return the card of a space."""
    facts = (
        f"Groups: {', '.join(space.groups)}. Rank {space.rank} in {space.dim} dimensions, kappa"
        f" {space.kappa:g}, scope {space.scope}.\nFitted with {space.encoder} by equipoise"
        f" {space.version}."
    )
    lines = (
        f'space = eq.AttributeSpace.from_pretrained("{repo_id}")\nu = eq.debias(embeddings, space)'
    )
    return _CARD.format(title="An attribute space", facts=facts, lines=lines)


def operator_card(operator: Operator, repo_id: str) -> str:
    """Return the card of an operator."""
    params = ", ".join(f"{name} {value}" for name, value in operator.params.items())
    facts = (
        f"Method: {operator.method} ({params or 'no parameters'}). Groups of"
        f" {operator.attribute.name}: {', '.join(operator.attribute.groups)}.\nIt changes"
        f" {' and '.join(operator.changes) or 'nothing'}, rows {operator.in_dim or 'of any number'}"
        f" wide. Fitted with {operator.made_by}."
    )
    lines = f'operator = eq.methods.from_pretrained("{repo_id}")\nu = operator.image(embeddings)'
    return _CARD.format(title="An operator", facts=facts, lines=lines)


def book_card(book: PromptBook, repo_id: str) -> str:
    """Return the card of a prompt book."""
    facts = f"{len(book.prompts)} prompts; groups: {', '.join(book.groups)}.\nHash {book.hash}."
    lines = (
        f'book = eq.PromptBook.from_pretrained("{repo_id}")\n'
        "space = eq.AttributeSpace.from_prompts(encoder, book, attribute)"
    )
    return _CARD.format(title="A prompt book", facts=facts, lines=lines)


def push(
    artefact: _Saved,
    kind: Kind,
    card: str,
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    revision: str | None = None,
) -> str:
    """Upload an artefact with its card; create the repository if need be.

    Return the address of the commit.
    """
    hub = _hub()
    api = hub.HfApi(token=token)
    api.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        artefact.save(Path(folder) / kind.file)
        (Path(folder) / "README.md").write_text(card, encoding="utf-8")
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            commit_message=f"Upload {kind.name}",
        )
    return str(commit.commit_url)


def fetch(
    repo_id_or_folder: str | os.PathLike[str],
    kind: Kind,
    *,
    revision: str | None = None,
    token: str | None = None,
    offline: bool = False,
) -> Path:
    """Return the file of an artefact, in a folder or downloaded (and cached) from the hub."""
    path = Path(repo_id_or_folder)
    if path.exists():
        return path / kind.file if path.is_dir() else path
    hub = _hub()
    repo_id = str(repo_id_or_folder)
    try:
        downloaded = hub.hf_hub_download(
            repo_id, kind.file, revision=revision, token=token, local_files_only=offline
        )
        return Path(downloaded)
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ArtefactError(
            f"{repo_id!r} is neither a folder nor the repository of {kind.name} that could be"
            f" fetched from the hub ({reason}); pass a folder that holds {kind.file}, or load the"
            f" file itself with {kind.loader}"
        ) from None


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("the Hugging Face hub", "huggingface_hub", "hub") from None
    return huggingface_hub
