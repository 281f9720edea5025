"""Training: seeded torch loops that may be killed and go on.

On a CPU the result is that of an undisturbed run, bit for bit. What a step does depends on the
state, the seed and the number of the step alone, so a checkpoint needs no state of a random
generator.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise import _artefact as artefact
from equipoise._progress import progress
from equipoise._version import __version__
from equipoise.errors import ArtefactError, EquipoiseError, InputError, MissingExtraError
from equipoise.methods._context import FitContext

KIND = "checkpoint"
SECONDS = 10.0  # between checkpoints

State = dict[str, Any]  # tensors by name


class Machine(NamedTuple):
    """torch, and where it computes."""

    torch: Any
    device: str

    def tensor(self, array: Any) -> Any:
        """Return the array as a tensor on the device."""
        return self.torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def machine(method: str, device: str | None) -> Machine:
    """Return torch on the device asked for, or on CUDA where there is one, or on the CPU."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"fitting {method}", "torch", "torch") from None
    here = ["cuda"] * torch.cuda.is_available() + ["cpu"]
    name = str(device or here[0])
    if name.split(":", maxsplit=1)[0] not in here:
        raise InputError(
            f"device={device!r} is not one that {method} can be fitted on here; pass one of"
            f" {', '.join(here)}"
        )
    return Machine(torch, name)


class Batches:
    """The rows of each step: all once per epoch, in an order that seed and epoch give."""

    def __init__(self, rows: int, size: int, seed: int):
        self.rows, self.size, self.seed = rows, min(size, rows), seed
        self.steps = -(-rows // self.size)  # in an epoch
        self._orders: dict[int, np.ndarray] = {}

    def __getitem__(self, step: int) -> np.ndarray:
        epoch, place = divmod(step, self.steps)
        return self.order(epoch)[place * self.size : (place + 1) * self.size]

    def order(self, epoch: int) -> np.ndarray:
        """Return all rows in the order of an epoch; -1 is an epoch before the first."""
        if epoch not in self._orders:
            rng = np.random.default_rng([self.seed, 0, epoch + 1])
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = rng.permutation(self.rows)
        return self._orders[epoch]


class Stage(NamedTuple):
    """One loop of a fit.

    ``inputs`` and ``settings``: all that the result depends on besides the seed; they name its
    checkpoint.
    """

    name: str
    context: FitContext
    settings: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]

    def checkpoint(self, here: Machine) -> Path | None:
        """Return where the state is kept; None where the context has no folder for it."""
        context = self.context
        if context.workdir is None:
            return None
        about = {
            "attribute": [part.to_plain() for part in context.attribute.facts()],
            "seed": context.seed,
            "settings": {k: str(v) for k, v in self.settings.items()},
            "torch": here.torch.__version__,
            "device": here.device.split(":")[0],
            "version": __version__,
        }
        key = artefact.digest(self.inputs, about)
        return Path(context.workdir) / f"{self.name.replace(' ', '-')}-{key[:16]}.safetensors"


def train(
    stage: Stage,
    here: Machine,
    start: Mapping[str, np.ndarray],
    loss: Callable[[State, int], Any],
    learned: Sequence[str],
    *,
    steps: int,
    lr: float,
    turn: Callable[[int], Sequence[str]] | None = None,
    after: Callable[[State, int], None] | None = None,
) -> dict[str, np.ndarray]:
    """Minimise ``loss(state, step)`` with Adam; return the arrays of the last state.

    It takes ``steps`` steps from the arrays of ``start``.

    learned: the names that Adam updates; turn(step): those of them whose turn it is. after(state,
    step): what else a step does to the state, without gradients. With a workdir the state is kept
    in a file every few seconds, and found again.
    """
    require_numbers({"lr": (lr, 0)})
    torch = here.torch
    path = stage.checkpoint(here)
    if path is not None:
        artefact.require_writable(path)
    with _exact(torch, here.device):
        state = {name: here.tensor(array).clone() for name, array in start.items()}
        for name in learned:
            state[name].requires_grad_(True)
        optimizer = torch.optim.Adam([state[name] for name in learned], lr=lr)
        first = _resume(path, here, state, optimizer) if path is not None else 0
        kept = time.monotonic()
        with progress(f"fitting {stage.name}", steps) as advance:
            advance(first)
            for step in range(first, steps):
                now = learned if turn is None else turn(step)
                gradients = torch.autograd.grad(loss(state, step), [state[name] for name in now])
                _move(optimizer, [state[name] for name in now], gradients)
                if after is not None:
                    with torch.no_grad():
                        after(state, step)
                if path is not None and time.monotonic() - kept >= SECONDS:
                    _keep(path, stage.name, state, optimizer, step + 1)
                    kept = time.monotonic()
                advance(1)
        if path is not None and first < steps:
            _keep(path, stage.name, state, optimizer, steps)
        return _finite(stage.name, state)


def _move(optimizer: Any, tensors: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Move these tensors by their gradients, and no other that the optimizer knows."""
    optimizer.zero_grad(set_to_none=True)
    for tensor, gradient in zip(tensors, gradients, strict=True):
        tensor.grad = gradient
    optimizer.step()


def trained_with(method: Any, *but: str) -> dict[str, Any]:
    """Return the parameters that a training depends on: all but those applied afterwards.

    So a sweep of these trains once.
    """
    return {name: value for name, value in asdict(method).items() if name not in ("amount", *but)}


def capped(cross_entropy: Any, groups: int) -> Any:
    """Return cross-entropies, none above that of a guess.

    Beyond it an adversary would be driven to be surely wrong, which tells as much.
    """
    return cross_entropy.clip(max=float(np.log(groups)))


def choose(name: str, value: Any, legal: Sequence[Any]) -> None:
    """Raise unless a parameter is one of these."""
    if value not in legal:
        raise InputError(f"{name}={value!r} is not legal; pass one of {', '.join(map(str, legal))}")


def require_numbers(at_least: Mapping[str, tuple[float, float]], *, whole: bool = False) -> None:
    """Raise unless each parameter is a finite (or whole) number from its least value on.

    at_least: name -> (value, least).
    """
    kind, word = (int, "whole number") if whole else (int | float, "number")
    for name, (value, least) in at_least.items():
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if not is_number or not least <= value < float("inf"):
            raise InputError(f"{name}={value!r} is not legal; pass a {word} from {least:g} on")


@contextmanager
def _exact(torch: Any, device: str) -> Iterator[None]:
    """Run torch with gradients and with algorithms that give the same bits each time.

    Afterwards the caller's settings are as before.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    if device.startswith("cuda"):
        # Without this torch refuses to promise anything.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.use_deterministic_algorithms(True)
    try:
        with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


def _finite(name: str, state: State) -> dict[str, np.ndarray]:
    arrays = {key: tensor.detach().cpu().numpy() for key, tensor in state.items()}
    bad = [key for key, array in arrays.items() if np.isnan(array).any()]
    if bad:
        raise EquipoiseError(
            f"fitting {name} diverged: {bad[0]} holds NaN; lower lr, or look for extreme values in"
            " what it was given"
        )
    return arrays


def _keep(path: Path, name: str, state: State, optimizer: Any, done: int) -> None:
    """Write state and moments as plain arrays."""
    arrays = _finite(name, state)
    for key, tensor in state.items():
        for part, value in optimizer.state.get(tensor, {}).items():
            arrays[f"adam.{part}.{key}"] = value.detach().cpu().numpy()
    artefact.save(path, KIND, arrays, {"done": done})


def _resume(path: Path, here: Machine, state: State, optimizer: Any) -> int:
    """Put a checkpoint's arrays in place; return how many steps are done."""
    if not path.is_file():
        return 0
    try:
        arrays, document = artefact.load(path, KIND)
        done = int(document["done"])
    except (ArtefactError, KeyError, TypeError, ValueError) as error:
        warnings.warn(
            f"{path} is no checkpoint to go on from ({error}); training starts again",
            UserWarning,
            stacklevel=4,
        )
        return 0
    for name, tensor in state.items():
        tensor.data.copy_(here.tensor(arrays[name]))
        moments = _moments(here, arrays, name)
        if moments:
            optimizer.state[tensor] = moments
    return done


def _moments(here: Machine, arrays: Mapping[str, np.ndarray], name: str) -> State:
    """Return what Adam knows of a tensor, from the arrays of a checkpoint."""
    found = {}
    for key, array in arrays.items():
        if not key.startswith("adam."):
            continue
        _, part, of = key.split(".", 2)
        if of == name:
            value = here.torch.from_numpy(array.copy())
            # Adam counts its steps on the CPU.
            found[part] = value if part == "step" else value.to(here.device)
    return found
