"""sglang's HTTP server. It counts with each answer of /generate (0.5.23, managers/tokenizer_manager.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from contracts.prompts import Prompt, as_text
from contracts.servers.counts import Count, Counts, Few, Served
from contracts.servers.talk import ServerError, Talk

PLAIN = "asked as plain text: the server has no chat template, or cannot be asked to use it"


class _Info(BaseModel):
    """Of /server_info, what is looked at."""

    model_config = ConfigDict(strict=True, frozen=True)

    model_path: str
    version: str = "(release unknown)"
    skip_tokenizer_init: bool = False
    speculative_algorithm: str | None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: Few | None = None
    speculative_eagle_topk: Few | None = None
    speculative_num_draft_tokens: Few | None = None
    speculative_accept_threshold_single: float = 1.0
    speculative_accept_threshold_acc: float = 1.0


class _Meta(BaseModel):
    """Of an answer's meta_info, what is looked at; some names changed over the releases."""

    model_config = ConfigDict(strict=True, frozen=True)

    completion_tokens: Count = 0
    spec_verify_ct: Count = 0
    spec_num_correct_drafts: Count | None = None
    spec_accept_token_num: Count | None = None
    spec_correct_drafts_histogram: list[Count] | None = None
    spec_accept_histogram: list[Count] | None = None

    def counts(self, steps: int) -> Counts:
        """What they say of so many steps; a histogram ends where nothing more was accepted."""
        rounds = self.spec_verify_ct
        if not rounds:
            return Counts()  # one token, made by the prefill
        named = (self.spec_num_correct_drafts, self.spec_accept_token_num)
        accepted = next((count for count in named if count is not None), None)
        if accepted is None:  # the prefill makes one token, and each round one besides those accepted
            accepted = self.completion_tokens - 1 - rounds
        by_accepted = self.spec_correct_drafts_histogram or self.spec_accept_histogram or []
        places = range(1, max(steps + 1, len(by_accepted))) if by_accepted else ()
        reached = tuple(sum(by_accepted[k:]) for k in places)
        return Counts(rounds=rounds, accepted=accepted, reached=reached)


class Sglang:
    """sglang's HTTP server."""

    def __init__(self, talk: Talk, info: Mapping[str, Any]) -> None:
        """Read what /server_info said.

        Raises:
            ServerError: it runs without speculation, or says something odd.

        """
        self._talk = talk
        self.notes: list[str] = []
        try:
            self._info = _Info.model_validate(info)
        except ValidationError as error:
            raise ServerError(f"{talk.url}: /server_info is odd: {_first(error)}") from None
        if not self._info.speculative_algorithm:
            raise ServerError(
                f"{talk.url}: sglang runs without speculation; start it with --speculative-algorithm EAGLE3 "
                "and --speculative-draft-model-path"
            )
        self.served = Served(
            url=talk.url,
            engine=f"sglang {self._info.version}",
            target=self._info.model_path,
            draft=self._info.speculative_draft_model_path,
            algorithm=self._info.speculative_algorithm,
            steps=self._info.speculative_num_steps,
            topk=self._info.speculative_eagle_topk,
            draft_tokens=self._info.speculative_num_draft_tokens,
            accept_thresholds=(
                self._info.speculative_accept_threshold_single,
                self._info.speculative_accept_threshold_acc,
            ),
        )

    def measure(self, prompts: Sequence[Prompt], tokens: int, answered: Callable[[], None]) -> Counts:
        """See `Server.measure`."""
        total = Counts()
        for number, prompt in enumerate(prompts, 1):
            total += self._counts(prompt, tokens, f"prompt {number} of {len(prompts)}")
            answered()
        if not total.rounds:
            raise ServerError(
                f"{self._talk.url}: no draft was verified: every answer ended at its first token, or the "
                "server counts no rounds (spec_verify_ct)"
            )
        return total

    def _counts(self, prompt: Prompt, tokens: int, where: str) -> Counts:
        sampling = {"temperature": 0.0, "max_new_tokens": tokens}
        question = {**self._question(prompt, where), "sampling_params": sampling}
        answer = self._talk.ask("/generate", question, where)
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        if not isinstance(meta, dict):
            raise ServerError(f"{self._talk.url}: the answer to {where} has no meta_info")
        try:
            counts = _Meta.model_validate(meta).counts(self.served.steps or 0)
        except ValidationError as error:
            raise ServerError(f"{self._talk.url}: meta_info of {where} is odd: {_first(error)}") from None
        if told := counts.contradiction(self.served.steps):
            raise ServerError(f"{self._talk.url}: the counts of {where} contradict each other: {told}")
        return counts

    def _question(self, prompt: Prompt, where: str) -> dict[str, Any]:
        if not isinstance(prompt, str) and isinstance(prompt[0], int):
            return {"input_ids": prompt}
        if self._info.skip_tokenizer_init:
            raise ServerError(
                f"{self._talk.url}: the server runs without a tokenizer (--skip-tokenizer-init); give token "
                "ids with --prompts FILE, a JSON list a line"
            )
        if isinstance(prompt, str):
            return {"text": prompt}
        templated = self._talk.try_to("/tokenize", {"messages": prompt}, where)
        if isinstance(templated, dict) and templated.get("tokens"):
            return {"input_ids": templated["tokens"]}
        if not self.notes:
            self.notes.append(PLAIN)
        return {"text": as_text(prompt)}


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, in a few words."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
