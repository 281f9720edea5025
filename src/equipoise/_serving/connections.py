"""Connections that cost little.

One that sends no whole request, or reads no answer, is cut off. The one that has waited longest
makes room for a new one.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0  # seconds for a whole request: one is a few hundred bytes
READING = 60.0  # seconds for an answer that is not read: one may be a megabyte, over a slow line
MOST = 256  # connections at a time: under the 1,024 files that a process may mostly open
BACKLOG = 128  # connections that are taken in at once, before any of them is cut off
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)  # no request yet, or only a part of its body


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with bounds.

    A deadline begins when a connection begins to wait, and no byte that trickles in moves it.
    waiting: the connections of one server, in the order in which they began to wait.
    """

    waiting: ClassVar[dict[PatientProtocol, asyncio.TimerHandle]]

    def connection_made(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST:
            crowded_out = next(iter(self.waiting), self)
            crowded_out.cut_off()
        self.look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stop_waiting()
        self.look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stop_waiting()
        self.look()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # another answer is on its way, or was given
            self.cut_off()

    def look(self) -> None:
        """See whether it is for the other side to go on, and by when."""
        if self.transport.is_closing():
            return
        if self.flow.write_paused:
            self.wait(READING)
        elif self.conn.their_state in _UNFINISHED:
            self.wait(PATIENCE)
        else:
            self.stop_waiting()

    def wait(self, seconds: float) -> None:
        if self not in self.waiting:
            self.waiting[self] = self.loop.call_later(seconds, self.cut_off)

    def stop_waiting(self) -> None:
        timer = self.waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def cut_off(self) -> None:
        self.stop_waiting()
        self.transport.abort()


def patient_protocol() -> type[H11Protocol]:
    """Return the protocol of one server, with a list of waiting connections that only it has."""

    class OfOneServer(PatientProtocol):
        waiting: ClassVar[dict[PatientProtocol, asyncio.TimerHandle]] = {}

    return OfOneServer
