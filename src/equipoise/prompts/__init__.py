"""From an attribute and prompts to a prompt book: who is named in a text, how English names a
group, and who writes it down.
"""
