"""A server far away: a TCP proxy in front of a real one that lets every byte arrive later, each way.

    python -m benchmarks.object_store.distance PORT MILLISECONDS     prints its own port, runs until it is killed

Nothing is slowed down but the way: bytes are passed on in order, any number at once. A new connection costs one round
trip more, as a real handshake does.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from types import TracebackType


class Distance:
    """The proxy, in a thread; `on_sent` is told how many bytes went to the server."""

    def __init__(
        self, port: int, round_trip_seconds: float, on_sent: Callable[[int], None] = lambda count: None
    ) -> None:
        self._server_port, self._way, self._on_sent = port, round_trip_seconds / 2, on_sent
        self._is_up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True, name="distance")

    def __enter__(self) -> "Distance":
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * self._way)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._pass_on(reader, back, self._on_sent), self._pass_on(there, writer, lambda count: None)
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Callable[[int], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1024)

        async def arrive() -> None:
            while True:
                when, content = await on_its_way.get()
                await asyncio.sleep(max(0.0, when - loop.time()))
                if not content:
                    return
                writer.write(content)
                await writer.drain()
                tell(len(content))

        arriving = asyncio.create_task(arrive())
        try:
            while content := await reader.read(1 << 18):
                await on_its_way.put((loop.time() + self._way, content))
            await on_its_way.put((loop.time() + self._way, b""))
            await arriving
        except OSError:
            pass  # one of the two ends is gone, and the other one sees that
        finally:
            arriving.cancel()
            writer.close()


if __name__ == "__main__":
    with Distance(int(sys.argv[1]), float(sys.argv[2]) / 1000) as proxy:
        print(proxy.port, flush=True)
        threading.Event().wait()
