"""Verbs: from names and files to results. ``eq.*`` and the command line call these.

One file per verb. A verb reads, checks what is cheap before long work, runs the library and writes.
Errors name parameters in backticks; the command line shows them as its own options.
"""
