"""Reads an Anthropic message from the bytes of its stream or from its JSON."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional

from ._agent_steps import AskedCall, joined

# Longest line that is read. No event of a model has a longer line.
_LINE_BYTES_MAX = 32 * 1024 * 1024
Listener = Callable[[str, List[AskedCall], int, str], None]
"""Receives the text, the calls, the tokens and the reasoning of a message."""


class MessageStream:
    """Reads the events of a message while their bytes pass, and reports the message at its end."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._rest = b""
        self._message: Optional[Dict[str, Any]] = None
        self._inputs: Dict[int, str] = {}
        self._has_stopped = False
        self._is_lost = False

    def take(self, data: bytes) -> None:
        """Reads the next bytes of the stream. Never raises. After an event that cannot be read, all further bytes are ignored."""
        if self._is_lost:
            return
        try:
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._is_lost = len(self._rest) > _LINE_BYTES_MAX
            for line in lines:
                if line.startswith(b"data:"):
                    self._take_event(json.loads(line[5:]))
        except Exception:
            self._is_lost = True

    def end(self) -> None:
        """Handles the end of the stream: reports the message, once, if the model has finished it."""
        message, self._message = self._message, None
        if message is None or not self._has_stopped or self._is_lost:
            return
        blocks = message["content"]
        for index, text in self._inputs.items():
            blocks[index]["input"] = _parse_input(text)
        tell_message(message, self._listener)

    def _take_event(self, event: Dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._message = {**event["message"], "content": {}}
            return
        message = self._message
        if message is None:
            return
        if kind == "content_block_start":
            message["content"][event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            self._add_delta(message["content"].get(event["index"]), event)
        elif kind == "message_delta":
            # A later event often has a 0 because the server does not fill the field.
            told = {name: value for name, value in (event.get("usage") or {}).items() if value}
            message["usage"] = {**(message.get("usage") or {}), **told}
            self._has_stopped = True
        elif kind == "message_stop":
            self.end()

    def _add_delta(self, block: Optional[Dict[str, Any]], event: Dict[str, Any]) -> None:
        delta, index = event["delta"], event["index"]
        if block is None:
            return
        for kind, field in (("text_delta", "text"), ("thinking_delta", "thinking")):
            if delta["type"] == kind and field in block:
                block[field] += delta[field]
        if delta["type"] == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]


def tell_message(message: Dict[str, Any], listener: Listener) -> None:
    """Passes the text, the calls, the tokens and the reasoning of a whole message to the listener."""
    content = message.get("content") or []
    blocks = list(content.values()) if isinstance(content, dict) else content
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    calls = [AskedCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    listener(joined(texts), calls, _tokens_of(message.get("usage") or {}), joined(thoughts, "\n"))


def _parse_input(text: str) -> Any:
    try:
        return {} if text == "" else json.loads(text)
    except ValueError:
        return text


def _tokens_of(usage: Dict[str, Any]) -> int:
    """Sums input and output tokens, including those of the cache.

    A request during which the provider compacted the conversation has several iterations, which are summed.
    """
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    iterations: List[Dict[str, Any]] = usage.get("iterations") or [usage]
    return sum(part.get(name) or 0 for part in iterations for name in names)
