"""The words of a report, explained: on hover, and in a glossary at its end."""

from __future__ import annotations

import re
from collections.abc import Callable

TERMS = {
    "attribute": (
        "What the audit asks about, such as gender. It is what wordings say and a model perceives,"
        " not who a person is."
    ),
    "group": "One value of the attribute, such as female.",
    "prompt": "A text that somebody might search for and that names no group.",
    "skew": (
        "How far the most over-represented group exceeds its share of the collection among the"
        " first results: the logarithm of the ratio of the two shares. Zero is in proportion. Also"
        " written MaxSkew@M, with M the number of first results."
    ),
    "chance": (
        "What the same rankings would show if the groups of the images were shuffled. A random"
        " ranking has some skew too, because a page is short."
    ),
    "leans": (
        "A prompt leans when its results are more skewed than the range that shuffled labels give."
    ),
    "lean": (
        "How much closer the embedding of a prompt is to one group’s wordings than to those of the"
        " others, as a difference of cosine similarities."
    ),
    "NDKL": (
        "How far the shares of the groups differ from those of the collection over the whole list,"
        " with more weight on its first places. Zero is in proportion."
    ),
    "interval": (
        "The range in which the value would lie for other draws of as many images or prompts. A"
        " change is called a change only where its interval leaves out zero."
    ),
    "change": (
        "The value with the method less the value before, measured on the same images and prompts."
    ),
    "first page": "The first results, as many as somebody looks at.",
    "probe": (
        "A classifier that is trained to tell the groups from the image embeddings. Its AUC is the"
        " chance that it ranks an image of one group above one of another: one half is guessing,"
        " one is certain."
    ),
    "method": "A way to debias embeddings. Fitting one gives an operator, which is a small file.",
    "kappa": (
        "The dial of a method. It weighs what is left of the attribute against what is lost of"
        " everything else: zero leaves the model as it is, one is the paper’s balance, infinity"
        " removes the attribute space."
    ),
    "leakage": "The length of the part of an embedding that lies in the attribute space.",
    "self-utility loss": (
        "How far an embedding moved from where it was: one less the cosine of the two."
    ),
    "attribute space": (
        "The directions in which the wordings of the groups differ. Most methods shrink or remove"
        " what lies in it."
    ),
    "explicit prompt": "A prompt that names its group, such as “a female doctor”.",
    "gate": (
        "It finds prompts that name a group and leaves them as they are, so that a search for “a"
        " female doctor” still finds her."
    ),
    "certificate": "What a method did to the vectors, measured, beside what the theory guarantees.",
    "zero-shot": (
        "Without training: an image has the group whose wordings are nearest to it in the model."
    ),
}

# words in sentences that are explained, in the order in which they are looked for
WORDS = {
    "MaxSkew": "skew",
    "shuffled labels": "chance",
    "AUC": "probe",
    "kappa": "kappa",
    "the gate": "gate",
    "zero-shot": "zero-shot",
    "prompts lean": "leans",
    "skew": "skew",
}
# what stands in braces is the place of a number
_WORD = re.compile(r"\{[^{}]*\}|\b(" + "|".join(map(re.escape, WORDS)) + r")\b")


def place(term: str) -> str:
    """Return the id of a term's entry."""
    return "term-" + re.sub(r"\W+", "-", term.lower())


def link_terms(sentence: str, link: Callable[[str, str], str]) -> str:
    """Return a sentence in which the first use of each term is a link(term, word)."""
    seen = set()

    def replace(found: re.Match[str]) -> str:
        word = found[1]
        if word is None or WORDS[word] in seen:
            return found[0]
        seen.add(WORDS[word])
        return link(WORDS[word], word)

    return _WORD.sub(replace, sentence)
