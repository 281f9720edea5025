"""What ``encode_prompt`` returns: tensors in tuples, lists and mappings, each at a path.

A slot is where the rows of prompts lie: along one axis of a tensor, or as the items of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[int | str, ...]
LIST = None  # the axis of a slot whose rows are the items of a list


@dataclass(frozen=True)
class RowsSlot:
    """Where the rows of prompts lie in an output. axis: LIST where they are a list's items."""

    path: Path
    axis: int | None

    def rows(self, output: Any) -> list[Any]:
        """Return the tensors of each row, without the axis of rows."""
        found = at(output, self.path)
        if self.axis is LIST:
            return list(found)
        return list(found.unbind(self.axis))

    def joined(self, rows: Sequence[Any], output: Any) -> Any:
        """Return rows as they lie in an output."""
        import torch

        if self.axis is None:
            return type(at(output, self.path))(rows)
        return torch.stack(list(rows), self.axis)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of torch."""
    import torch

    return isinstance(value, torch.Tensor)


def nodes(output: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of an output and of everything in it."""
    yield path, output
    if isinstance(output, Mapping):
        for key, value in output.items():
            yield from nodes(value, (*path, key))
    elif isinstance(output, (tuple, list)):
        for i, value in enumerate(output):
            yield from nodes(value, (*path, i))


def at(output: Any, path: Path) -> Any:
    """Return the value at a path."""
    for step in path:
        output = output[step]
    return output


def replaced(output: Any, path: Path, value: Any) -> Any:
    """Return an output with another value at a path; the output itself stays as it is."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    inner = replaced(output[step], rest, value)
    if isinstance(output, Mapping):
        return type(output)(**{**output, str(step): inner})
    items = list(output)
    items[int(step)] = inner
    if hasattr(output, "_fields"):
        return type(output)(*items)
    return type(output)(items)


def place(path: Path) -> str:
    """Return how an error names a path."""
    if not path:
        return "what encode_prompt returns"
    return f"output {'.'.join(map(str, path))} of encode_prompt"
