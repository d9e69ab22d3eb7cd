"""A request over a connection of its own, and what comes back line by line, with little work for the client.

The clients of a benchmark run on the server's cores: what they take is taken from it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import h11

_PIECE = 1 << 16


async def posted(url: str, path: str, body: Mapping[str, object]) -> AsyncGenerator[int | bytes, None]:
    """Post JSON; yield the status of the answer, and then its lines as they come, without their ends.

    Raises OSError, and h11.RemoteProtocolError for an answer that ends too early.
    """
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        connection, rest = h11.Connection(h11.CLIENT), b""
        writer.write(_request(connection, address.netloc, path, body))
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(_PIECE))
            elif isinstance(event, h11.Response):
                yield event.status_code
            elif isinstance(event, h11.Data):
                *lines, rest = (rest + event.data).split(b"\n")
                for line in lines:
                    yield line
        yield rest
    finally:
        writer.close()


def _request(connection: h11.Connection, host: str, path: str, body: Mapping[str, object]) -> bytes:
    content = json.dumps(body).encode()
    headers = {
        "Host": host,
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        "Connection": "close",
    }
    head = h11.Request(method="POST", target=path, headers=list(headers.items()))
    parts = [connection.send(event) for event in (head, h11.Data(data=content), h11.EndOfMessage())]
    return b"".join(part for part in parts if part is not None)
