"""Tensors on a GPU that many calls read, and that nobody else sees: a space's copies of its axes.

A space may be dropped while its kernel waits on a stream. torch gives memory back to the stream
that it was made on, and waits for no stream that it was not told of.
"""

from __future__ import annotations

import torch

KEPT: set[HeldTensors] = set()  # until the process ends


class HeldTensors:
    """Tensors of one device, whose memory nobody has before the last kernel has read them."""

    def __init__(self, tensors: tuple[torch.Tensor, ...]):
        self._tensors = tensors
        self._streams: set[int] = set()  # that torch was told of

    def before(self, stream: int) -> None:
        """Note that a kernel is about to read them on a stream, the current one.

        They are kept where nobody can tell when they were read last: a CUDA graph reads them
        whenever it is replayed, and a stream of another library may be gone when torch would wait
        for it.
        """
        if torch.cuda.is_current_stream_capturing():
            KEPT.add(self)
        elif stream not in self._streams:
            current = torch.cuda.current_stream()
            if current.stream_id and current.stream_id == current.cuda_stream:  # not torch's own
                KEPT.add(self)
            else:
                for tensor in self._tensors:
                    tensor.record_stream(current)
            self._streams.add(stream)
