"""Refuse the network in every Python that starts with this folder on its path, and note what was tried.

Python announces each look-up and each connection to its audit hooks, whoever asks for it. What is
not Python's, such as a library in C++, does not pass here: strace sees that.
"""

import ipaddress
import os
import sys

LOOK_UPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
SENDING = ("socket.connect", "socket.sendto", "socket.sendmsg")
HERE = (None, "", "localhost", b"localhost")


def is_here(host) -> bool:
    if host in HERE:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(event, arguments):
    if event in LOOK_UPS:
        return arguments[0]
    address = arguments[1]
    return address[0] if isinstance(address, tuple) else None  # else a socket of this machine


def watch(event, arguments):
    if event not in (*LOOK_UPS, *SENDING):
        return
    host = host_of(event, arguments)
    if is_here(host):
        return
    with open(os.environ["NETWORK_TRIED"], "a") as log:
        log.write(f"{event} {host!r}: {' '.join(sys.argv)}\n")
    raise PermissionError(f"{event} of {host!r}: the network is out of bounds here")


sys.addaudithook(watch)
