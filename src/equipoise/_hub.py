"""Sharing a space on the Hugging Face hub; huggingface_hub is imported only when it is used."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import ArtefactError, MissingExtraError

if TYPE_CHECKING:
    from equipoise._space import AttributeSpace

FILE = "space.safetensors"

_CARD = """---
library_name: equipoise
tags:
- fairness
- clip
---
# An attribute space for equipoise

Groups: {groups}. Rank {rank} in {dim} dimensions, kappa {kappa:g}, scope {scope}.
Fitted with {encoder} by equipoise {version}.

```python
import equipoise as eq
space = eq.AttributeSpace.from_pretrained("{repo_id}")
u = eq.debias(embeddings, space)
```
"""


def push(
    space: AttributeSpace,
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    revision: str | None = None,
) -> str:
    """Upload the space with a short card; create the repository if need be.

    Return the address of the commit.
    """
    hub = _hub()
    api = hub.HfApi(token=token)
    api.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        space.save(Path(folder) / FILE)
        card = _CARD.format(
            groups=", ".join(space.groups),
            repo_id=repo_id,
            rank=space.rank,
            dim=space.dim,
            kappa=space.kappa,
            scope=space.scope,
            encoder=space.encoder,
            version=space.version,
        )
        (Path(folder) / "README.md").write_text(card, encoding="utf-8")
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            commit_message="Upload attribute space",
        )
    return str(commit.commit_url)


def fetch(
    repo_id_or_folder: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
    offline: bool = False,
) -> Path:
    """Return the file of a space, in a folder or downloaded (and cached) from the hub."""
    path = Path(repo_id_or_folder)
    if path.exists():
        return path / FILE if path.is_dir() else path
    hub = _hub()
    repo_id = str(repo_id_or_folder)
    try:
        downloaded = hub.hf_hub_download(
            repo_id, FILE, revision=revision, token=token, local_files_only=offline
        )
        return Path(downloaded)
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ArtefactError(
            f"{repo_id!r} is neither a folder nor a space that could be fetched from the hub"
            f" ({reason}); pass a folder that holds {FILE}, or load the file itself with"
            " AttributeSpace.load"
        ) from None


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("the Hugging Face hub", "huggingface_hub", "hub") from None
    return huggingface_hub
