"""A receiver of webhooks for the bench, in a process of its own: it counts payouts by their ids.

    python -m bench.payout_receiver

Prints its port. After a line on standard input it prints how many messages and ids it has received,
and the seconds from the first to the last.
"""

import asyncio
import sys
from time import perf_counter

import msgspec


class _Message(msgspec.Struct):
    id: str


class _Receiver:
    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(list[_Message])
        self.ids: set[str] = set()
        self.messages = 0
        self.first = self.last = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
                messages = self._decoder.decode(await reader.readexactly(length))
                self.first = self.first or perf_counter()
                self.messages += len(messages)
                self.ids.update([each.id for each in messages])
                self.last = perf_counter()
                writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    """Serve until standard input has a line."""
    receiver = _Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(receiver.messages, len(receiver.ids), receiver.last - receiver.first, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
