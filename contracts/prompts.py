"""The prompts that a running server is asked: a small fixed set, or a file of one's own."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

Message = dict[str, str]
"""One turn of a chat: `role` and `content`."""
Prompt = str | list[int] | list[Message]
"""Text as it stands, token ids as they stand, or a chat, which the server's own template turns into text."""
LARGEST_FILE = 16 * 1024 * 1024
"""Bytes."""
_PROMPT: TypeAdapter[Prompt] = TypeAdapter(Prompt)

QUESTIONS = (
    "Explain in a few sentences how a rainbow forms.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "What is 37 times 24? Show each step.",
    "Summarise the plot of Romeo and Juliet in one paragraph.",
    "Translate into French: The library closes at eight, so please be on time.",
    "List five things to check before a long hike, with one reason each.",
    "Write a SQL query that counts orders per customer in the year 2024.",
    "Why do two mirrors that face each other show a long tunnel?",
)
DEFAULT: tuple[Prompt, ...] = tuple([{"role": "user", "content": text}] for text in QUESTIONS)
"""Of several kinds, because a draft is right more often on code than on prose."""


class PromptsError(Exception):
    """A file that holds no prompts. One line."""


def read(file: Path) -> tuple[Prompt, ...]:
    """Prompts of a file, one JSON value a line: a string, a list of token ids, or a list of chat messages.

    Raises:
        PromptsError: it cannot be read, or a line is none of these.

    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise PromptsError(f"{file}: not a file")
        if file.stat().st_size > LARGEST_FILE:
            raise PromptsError(f"{file}: larger than {LARGEST_FILE >> 20} MiB; a few prompts are enough")
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # a string may hold other line breaks
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PromptsError(f"{file}: {reason}") from None
    prompts = tuple(_parse(line, f"{file}, line {n}") for n, line in enumerate(lines, 1) if line.strip())
    if not prompts:
        raise PromptsError(f"{file}: no prompt in it")
    return prompts


def _parse(line: str, where: str) -> Prompt:
    try:
        prompt = _PROMPT.validate_json(line, strict=True)
    except ValidationError:
        prompt = ""
    turns = [part for part in prompt if isinstance(part, dict)]
    if not prompt or any(turn.keys() != {"role", "content"} for turn in turns):
        chat = '[{"role": "user", "content": "..."}]'
        raise PromptsError(f"{where}: write a JSON string, a list of token ids, or a chat such as {chat}")
    return prompt


def as_text(chat: list[Message]) -> str:
    """A chat without any template: what was said, line by line."""
    return "\n".join(message["content"] for message in chat)
