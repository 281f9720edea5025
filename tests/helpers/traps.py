"""What a hostile model folder brings: a module that tells when it is imported, a pickle that tells when it is read."""

from __future__ import annotations


def set_trap(folder, marker):
    """A module of Python beside the weights; to import it is to be caught."""
    lines = (f"open({str(marker)!r}, 'w').write('ran')", "class Trap:", "    pass", "")
    (folder / "trap.py").write_text("\n".join(lines))


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")
