"""The items of a response, as they grow: a thought, a message, a call of a tool."""

import uuid
from collections.abc import Iterator

from rase_models.chat.parts import ToolCall
from rase_models.chat.reply import Reply

from rase_api.dialects import Json
from rase_api.replies.logprobs import chat_logprobs
from rase_api.replies.writer import Told

Event = tuple[str, Json]
"""The kind of an event, without its prefix, and what it says."""


class OpenItem:
    """An item that grows."""

    prefix = ""

    def __init__(self) -> None:
        self.id = f"{self.prefix}{uuid.uuid4().hex}"
        self.text = ""
        self.told: Told = ()

    def whole(self, status: str) -> Json:
        """Return the item as it is."""
        raise NotImplementedError

    def opening(self) -> Iterator[Event]:
        """Yield what begins the item."""
        yield "output_item.added", {"item": self.whole("in_progress")}

    def piece(self, text: str, told: Told = ()) -> Iterator[Event]:
        """Yield what adds a text."""
        raise NotImplementedError

    def closing(self, status: str) -> Iterator[Event]:
        """Yield what ends the item."""
        yield "output_item.done", {"item": self.whole(status)}

    @property
    def place(self) -> Json:
        """Where a piece belongs."""
        return {"item_id": self.id, "content_index": 0}


class OpenMessage(OpenItem):
    """What the answer says."""

    prefix = "msg_"

    def whole(self, status: str) -> Json:
        """Return the message, without parts while it has only begun."""
        parts = [] if status == "in_progress" else [_part(self.text, self.told)]
        return {"id": self.id, "type": "message", "role": "assistant", "status": status, "content": parts}

    def opening(self) -> Iterator[Event]:
        """Yield what begins the message and its part."""
        yield from super().opening()
        yield "content_part.added", self.place | {"part": _part("")}

    def piece(self, text: str, told: Told = ()) -> Iterator[Event]:
        """Yield a piece."""
        self.text += text
        self.told += told
        yield "output_text.delta", self.place | {"delta": text, "logprobs": chat_logprobs(told)}

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the text, the part and the message as they have become."""
        yield "output_text.done", self.place | {"text": self.text, "logprobs": chat_logprobs(self.told)}
        yield "content_part.done", self.place | {"part": _part(self.text, self.told)}
        yield from super().closing(status)


class OpenThought(OpenItem):
    """What the model thought."""

    prefix = "rs_"

    def whole(self, status: str) -> Json:
        """Return the thought."""
        parts = [{"type": "reasoning_text", "text": self.text}] if self.text else []
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": parts}

    def piece(self, text: str, told: Told = ()) -> Iterator[Event]:
        """Yield a piece."""
        self.text += text
        yield "reasoning_text.delta", self.place | {"delta": text}

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the thought as it has become."""
        yield "reasoning_text.done", self.place | {"text": self.text}
        yield from super().closing(status)


class OpenCall(OpenItem):
    """A call of a tool."""

    prefix = "fc_"

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self._call = call

    def whole(self, status: str) -> Json:
        """Return the call."""
        names = {"call_id": self._call.id, "name": self._call.name, "arguments": self.text}
        return {"id": self.id, "type": "function_call", "status": status, **names}

    def piece(self, text: str, told: Told = ()) -> Iterator[Event]:
        """Yield a piece of the arguments."""
        self.text += text
        yield "function_call_arguments.delta", {"item_id": self.id, "delta": text}

    def closing(self, status: str) -> Iterator[Event]:
        """Yield the call as it has become."""
        done: Json = {"item_id": self.id, "name": self._call.name, "arguments": self.text}
        yield "function_call_arguments.done", done
        yield from super().closing(status)


def items_of(reply: Reply, status: str, told: Told = ()) -> list[Json]:
    """Write a reply as items, at least one; the last one has the status of the answer."""
    items: list[OpenItem] = []
    if reply.reasoning:
        items.append(_filled(OpenThought(), reply.reasoning))
    if reply.content or not (reply.reasoning or reply.tool_calls):
        items.append(_filled(OpenMessage(), reply.content, told))
    items += [_filled(OpenCall(call), call.arguments) for call in reply.tool_calls]
    return [*(item.whole("completed") for item in items[:-1]), items[-1].whole(status)]


def _filled(item: OpenItem, text: str, told: Told = ()) -> OpenItem:
    item.text, item.told = text, told
    return item


def _part(text: str, told: Told = ()) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": chat_logprobs(told)}
