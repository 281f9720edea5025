"""From an attribute and prompts to a prompt book: who is named in a text, how English names a
group, and who writes it down.
"""

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._neutral_captions import neutralize
from equipoise.prompts._prompt_book import Entry, Missing, PromptBook
from equipoise.prompts._stated_groups import explicit_groups

__all__ = ["Attribute", "Entry", "Missing", "PromptBook", "explicit_groups", "neutralize"]
