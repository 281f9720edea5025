"""From an attribute and prompts to a prompt book: who is named in a text, how English names a
group, and who writes it down.
"""

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import Entry, Missing, PromptBook
from equipoise.prompts._marks import explicit_groups
from equipoise.prompts._neutral import neutralize

__all__ = ["Attribute", "Entry", "Missing", "PromptBook", "explicit_groups", "neutralize"]
