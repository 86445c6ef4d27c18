"""Stands in for a program that somebody else starts: has it forked with these streams, and ends as it does.

`python -I -S tests/fork_client.py SOCKET ARGUMENTS`: it imports next to nothing, as it is what a test waits for.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

NUMBER = struct.Struct("!I")
STREAMS = (0, 1, 2)
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(address: str, arguments: list[str]) -> int:
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - quick
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until there is whom to forward them to
    words = json.dumps(request).encode()
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(address)
    socket.send_fds(peer, [NUMBER.pack(len(words))], STREAMS)
    peer.sendall(words)
    (pid,) = NUMBER.unpack(peer.recv(NUMBER.size, socket.MSG_WAITALL))
    for each in FORWARDED:
        signal.signal(each, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in STREAMS:
        os.dup2(nothing, stream)  # the other ends are to see when the program closes its own
    (status,) = NUMBER.unpack(peer.recv(NUMBER.size, socket.MSG_WAITALL))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2:])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
