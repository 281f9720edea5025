"""Numbers that CUDA kernels add to: how many rows of a call had no direction.

A number in a GPU's own memory is cleared by one launch and read by one copy, and both take longer
than debiasing a few rows. So these are in pinned memory of the host. A kernel that meets no such
row touches no number, and reading one is reading memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

BLOCK = 256  # numbers that are made at a time: one page of memory
APART = 4  # int32s from one to the next: Triton compiles another kernel for less than 16 bytes


class Count(Protocol):
    """How many rows of one call had no direction; ``int`` waits for its kernel."""

    @property
    def number(self) -> torch.Tensor | None:
        """Return what the kernel adds to, one int32; None where it does not count."""
        ...

    def launched(self) -> None:
        """Note that the kernel is on its way, on the current stream."""
        ...

    def __int__(self) -> int: ...


def new_count(device: torch.device) -> Count:
    """Return a count for a kernel that is about to be launched on a device, the current one.

    A CUDA graph that is recorded keeps its number for as long as it is replayed, so that number has
    to be the graph's own.
    """
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return DeviceCount(device)
    slots = _slots(device)
    return DeviceCount(device) if slots is None else HostCount(slots)


class NoCount:
    """Where nobody asks."""

    number = None

    def launched(self) -> None:
        pass

    def __int__(self) -> int:
        raise TypeError("these rows were not counted")


NO_COUNT = NoCount()


class DeviceCount:
    """A count in the device's own memory."""

    def __init__(self, device: torch.device):
        self.number = torch.zeros(1, dtype=torch.int32, device=device)

    def launched(self) -> None:
        pass

    def __int__(self) -> int:
        return int(self.number)


class CountSlot(NamedTuple):
    """One number of the host's memory, and what tells when its last kernel has run."""

    number: torch.Tensor
    memory: np.ndarray  # the same, read without torch
    event: Any


class CountSlots:
    """Numbers for the kernels of one device.

    What ``take`` returns is 0, and no kernel on its way knows it. That holds whatever happens to
    the calls before: a slot comes back when its kernel has run and it is 0 again. One whose kernel
    may or may not have been launched, because an error or Ctrl-C came between, never comes back.
    """

    def __init__(self, make_event: Callable[[], Any], pinned: bool):
        self.lock = threading.Lock()
        self._make_event = make_event
        self._pinned = pinned
        self._free: list[CountSlot] = []
        self._dropped: list[CountSlot] = []
        self._add_block()

    def take(self) -> CountSlot:
        while True:
            try:
                return self._free.pop()
            except IndexError:
                self._refill()

    def put(self, slot: CountSlot) -> None:
        """Take back a slot whose kernel has run."""
        slot.memory[0] = 0
        self._free.append(slot)

    def drop(self, slot: CountSlot) -> None:
        """Take back a slot whose kernel was launched and may still be running."""
        self._dropped.append(slot)

    def _refill(self) -> None:
        with self.lock:
            dropped, self._dropped = self._dropped, []
            for slot in dropped:
                if slot.event.query():
                    self.put(slot)
                else:
                    self.drop(slot)
            if not self._free:
                self._add_block()

    def _add_block(self) -> None:
        block = torch.zeros(BLOCK * APART, dtype=torch.int32, device="cpu", pin_memory=self._pinned)
        memory = block.numpy()
        for i in range(0, len(block), APART):
            self._free.append(CountSlot(block[i : i + 1], memory[i : i + 1], self._make_event()))


@cache
def _slots(device: torch.device) -> CountSlots | None:
    """Return the slots of a device, or None where its kernels cannot add to the host's memory."""
    if device.type == "cpu":  # Triton's interpreter: a kernel has run when its launch returns
        return CountSlots(torch.cpu.Event, pinned=False)
    if not torch.version.cuda:
        return None
    try:
        return CountSlots(lambda: torch.Event(device, enable_timing=False), pinned=True)
    except RuntimeError:  # there is no memory that can be pinned
        return None


class HostCount:
    """A count in the host's memory."""

    _running = False  # launched, and not yet read

    def __init__(self, slots: CountSlots):
        self._slots = slots
        self._slot = slots.take()
        self._found = 0
        self.number: torch.Tensor = self._slot.number

    def launched(self) -> None:
        self._slot.event.record()
        self._running = True

    def __int__(self) -> int:
        if self._running:
            self._slot.event.synchronize()
            with self._slots.lock:
                self._read()
        return self._found

    def _read(self) -> None:
        """Keep the number and give its slot back, once."""
        if self._running:
            self._found = int(self._slot.memory[0])
            self._running = False
            self._slots.put(self._slot)

    def __del__(self) -> None:
        if self._running:
            self._slots.drop(self._slot)
