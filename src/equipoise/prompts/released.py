"""The ``LLM.json`` of the paper's released code, read as a prompt book.

classification: data set -> prompt -> group -> {t_g, T_g}. retrieval, generation: rows with
text_query, group, t_g and T_g, where the same query comes once an image.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equipoise.errors import ArtefactError
from equipoise.prompts.book import Entry, PromptBook, Source

_SECTIONS = ("classification", "retrieval", "generation")


def is_released(document: Any) -> bool:
    """Whether parsed JSON has that layout."""
    return (
        isinstance(document, dict)
        and "kind" not in document
        and any(name in document for name in _SECTIONS)
    )


def read_released(document: dict[str, Any]) -> PromptBook:
    """A book of all sections.

    Rows without an anchor are left out and counted; of rows that say the same, the first is kept.
    """
    rows: dict[str, dict[str, Entry]] = {}
    left_out = 0
    for prompt, group, node in _rows(document):
        anchor, variants = node.get("t_g"), node.get("T_g")
        if not isinstance(anchor, str) or not anchor.strip():
            left_out += 1
            continue
        kept = (
            (text.strip() for text in variants if isinstance(text, str))
            if isinstance(variants, list)
            else ()
        )
        texts = tuple(dict.fromkeys(text for text in kept if text and text != anchor.strip()))
        rows.setdefault(prompt, {}).setdefault(
            " ".join(group.replace("_", " ").split()), Entry(anchor=anchor.strip(), variants=texts)
        )
    if not rows:
        raise ArtefactError(
            "the LLM.json holds no row with an anchor (t_g); it was never completed, so write it"
            " again"
        )
    note = "LLM.json of the paper's released code" + (
        f"; {left_out} rows without an anchor left out" if left_out else ""
    )
    return PromptBook(sources=(Source(writer="released", note=note),), prompts=rows)


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    try:
        for prompts in document.get("classification", {}).values():
            for prompt, groups in prompts.items():
                for group, node in groups.items():
                    yield prompt, group, dict(node)
        for section in _SECTIONS[1:]:
            for row in document.get(section, ()):
                yield str(row["text_query"]), str(row["group"]), dict(row)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(
            f"this looks like the released LLM.json, but a row of it is not as there ({error!r})"
        ) from None
