"""Read the ``LLM.json`` of the paper's released code as a prompt book.

classification: data set -> prompt -> group -> {t_g, T_g}. retrieval, generation: rows with
text_query, group, t_g and T_g, where the same query comes once per image. The file means what the
released code reads in it, so that is what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equipoise.errors import ArtefactError
from equipoise.prompts._neutral_captions import neutralize
from equipoise.prompts._prompt_book import Entry, PromptBook, Source

_SECTIONS = ("classification", "retrieval", "generation")


def is_released(document: Any) -> bool:
    """Return whether parsed JSON has that layout."""
    if not isinstance(document, dict) or "kind" in document:
        return False
    return any(name in document for name in _SECTIONS)


def read_released(document: dict[str, Any]) -> PromptBook:
    """Return a book of all sections.

    Rows without an anchor are left out and counted. Of rows of one prompt and group the last one
    with an anchor and variants counts, or else the last. A variant that is repeated, or that
    repeats the anchor, weighs as often in the prototype.
    """
    rows: dict[str, dict[str, Entry]] = {}
    left_out = 0
    for prompt, group, node in _rows(document):
        entry = _entry(node)
        if entry is None:
            left_out += 1
            continue
        name = " ".join(group.replace("_", " ").split())
        entries = rows.setdefault(prompt, {})
        if entry.variants or name not in entries or not entries[name].variants:
            entries[name] = entry
    if not rows:
        raise ArtefactError(
            "the LLM.json holds no row with an anchor (t_g); it was never completed, so write it"
            " again"
        )
    note = "LLM.json of the paper's released code"
    if left_out:
        note += f"; {left_out} rows without an anchor left out"
    return PromptBook(sources=(Source(writer="released", note=note),), prompts=rows)


def _entry(node: dict[str, Any]) -> Entry | None:
    """Return a row's anchor and variants, or None where it has no anchor."""
    anchor, variants = _stripped(node.get("t_g")), node.get("T_g")
    if not anchor:
        return None
    if not isinstance(variants, list):
        return Entry(anchor=anchor)
    texts = [_stripped(text) for text in variants]
    return Entry(anchor=anchor, variants=tuple(text for text in texts if text))


def _stripped(value: Any) -> str:
    """Return a text without space around it, "" for what is no text."""
    return value.strip() if isinstance(value, str) else ""


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the prompt, the group and the fields of every row.

    A row of COCO's also answers to its query without words of skin tone, which is what is searched
    with there.
    """
    try:
        for prompts in document.get("classification", {}).values():
            yield from _classes(prompts)
        for section in _SECTIONS[1:]:
            for row in document.get(section, ()):
                yield from _queries(dict(row))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(
            f"this looks like the released LLM.json, but one of its rows has another layout"
            f" ({error!r})"
        ) from None


def _classes(
    prompts: dict[str, dict[str, Any]],
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the rows of one classification."""
    for prompt, groups in prompts.items():
        for group, node in groups.items():
            yield prompt, group, dict(node)


def _queries(row: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a row under its query; one of COCO's also under the query that is searched with."""
    query, group = str(row["text_query"]), str(row["group"])
    yield query, group, row
    if row.get("dataset") == "coco":
        searched = neutralize(query, protocol="released")
        if searched not in ("", query):
            yield searched, group, row
