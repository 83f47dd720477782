"""What an engine made of a draft, on a run that is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.acceptance import Acceptance, Expected, first_other
from contracts.causes import Cause
from contracts.settings import SETTINGS, TOKENS
from contracts.speculation import EngineRun, Generation, Round
from contracts.verdict import Broken
from tests import acceptances
from tests.acceptances import ACCEPTANCE, ALONE, EXPECTED, METRICS, RUN
from tests.runner import broken

TREE = Round(
    committed=9,
    drafted=(5, 6, 7, 8, 9),
    parents=(0, 0, 1, 2, 4),
    accepted=3,
    branches=((5, 8), (6, 7)),
)
"""5-7 and 6-8-9; after the first token each branch went on with that of the other."""


@pytest.mark.parametrize(
    ("said", "length"), [((5, 7, 1), 2), ((6, 8, 9, 4), 3), ((6, 7), 1), ((7,), 0), ((), 0)]
)
def test_longest_path_of_a_tree(said: tuple[int, ...], length: int) -> None:
    assert TREE.path(said) == length


def test_what_leads_to_a_node() -> None:
    assert [TREE.prefix(node) for node in range(1, 6)] == [(), (), (5,), (6,), (6, 8)]


def test_token_that_follows_on_another_branch_is_told() -> None:
    followed = {TREE.drafted[node - 1]: TREE.follows_its_own_branch(node) for node in range(1, 6)}
    assert followed == {5: True, 6: True, 7: True, 8: True, 9: False}


def test_token_that_follows_on_another_branch_is_not_compared() -> None:
    first = RUN.generations[0].rounds[0]
    drafted = (*first.drafted[:2], 99)
    changed = {"drafted": drafted, "accepted": 1}
    assert replace(ACCEPTANCE, run=acceptances.a_round(RUN, lambda it: it is first, **changed)).other_draft()
    changed["branches"] = ((first.drafted[0], 98),)
    run = acceptances.a_round(RUN, lambda it: it is first, **changed)
    assert replace(ACCEPTANCE, run=run).other_draft() is None


def test_accept_length_counts_the_targets_own_token() -> None:
    run = EngineRun(
        generations=(
            Generation(prompt=(1,), tokens=(2,), verifications=4, accepted=6),
            Generation(prompt=(1,), tokens=(2,), verifications=1, accepted=3),
        )
    )
    assert run.accept_length == pytest.approx(1 + 9 / 5)
    assert ALONE.accept_length == 1  # without speculation


def test_what_the_probes_wrote_is_read(tmp_path: Path) -> None:
    expected, run, alone = acceptances.save(tmp_path)
    read = Acceptance.read(
        expected=expected, run=run, alone=alone, metrics=tmp_path / "none", setting=SETTINGS[0]
    )
    assert read.run == RUN
    assert read.alone == ALONE
    assert [item.text for item in read.expected] == [item.text for item in EXPECTED]
    assert read.ids == acceptances.IDS
    assert read.metrics == {}
    assert broken(acceptance=replace(read, metrics=METRICS)) == {}


def test_figures_are_served_replayed_and_promised() -> None:
    figures = ACCEPTANCE.figures()
    assert figures["accept_length"] == pytest.approx(RUN.accept_length)
    assert figures["replayed"] == pytest.approx(RUN.accept_length)
    assert figures["promised"] == pytest.approx(1 + 0.9 + 0.5 + 0.4)
    assert "promised" not in replace(ACCEPTANCE, metrics={}).figures()


def test_too_few_accuracies_promise_nothing() -> None:
    metrics = {"full_acc_0_epoch": 0.9, "full_acc_2_epoch": 0.5, "loss_epoch": 1.0}
    told = broken(acceptance=replace(ACCEPTANCE, metrics=metrics))
    assert {name: it.cause for name, it in told.items()} == {
        "acceptance.accept_length_is_what_training_promised": Cause.METRICS_MISSING
    }


def with_draft(token: int, *, tied: bool) -> Acceptance:
    """The second token of the first chain is another one; rounding can explain it or not."""
    first = RUN.generations[0].rounds[0]
    drafted = (first.drafted[0], token, first.drafted[2])
    run = acceptances.a_round(RUN, lambda item: item is first, drafted=drafted, accepted=1)
    margins = EXPECTED[0].margins.copy()
    if tied:
        margins[0, 1] = 1e-7
    return replace(ACCEPTANCE, run=run, expected=(replace(EXPECTED[0], margins=margins), *EXPECTED[1:]))


def test_other_draft_token_is_told_with_its_place() -> None:
    told = with_draft(99, tied=False).other_draft()
    assert told is not None
    assert told.startswith("99 where training proposes ")
    assert told.endswith("; round 1 of prompt 1, draft token 2")


def test_rounding_excuses_a_token_that_scores_alike_and_what_follows() -> None:
    acceptance = with_draft(99, tied=True)
    assert acceptance.other_draft() is None
    verdicts = broken(acceptance=acceptance)
    # In a chain that rounding may change, the engine's own count is the one to expect.
    assert "acceptance.draft_tokens_are_those_of_training" not in verdicts


def test_rounds_after_another_text_are_not_compared() -> None:
    run = acceptances.first(RUN, tokens=(0, *RUN.generations[0].tokens[1:]))
    places = [where for _, _, where in replace(ACCEPTANCE, run=run).rounds()]
    assert places
    assert all(where.endswith("prompt 2") for where in places)


def test_text_that_differs_or_ends_early_is_told() -> None:
    generation = RUN.generations[0]
    text = generation.text
    assert first_other(text, generation) is None
    changed = replace(generation, tokens=(generation.tokens[0], 0, *generation.tokens[2:]))
    assert first_other(text, changed) == (
        f"token 0 at place 1 of the output, where {generation.tokens[1]} was due"
    )
    short = replace(generation, tokens=generation.tokens[: TOKENS - 2])
    assert first_other(text, short) == "2 tokens too few"


def test_width_that_is_no_number_of_states_is_told() -> None:
    acceptance = replace(ACCEPTANCE, taps=ACCEPTANCE.taps[:, :-1])
    with pytest.raises(Broken) as raised:
        acceptance.captured()
    assert raised.value.cause is Cause.WIDTH_DIFFERS


def test_allowance_shrinks_with_the_number_of_rounds() -> None:
    once = ACCEPTANCE.allowance()
    four_times = replace(ACCEPTANCE, run=EngineRun(generations=RUN.generations * 4))
    assert four_times.allowance() == pytest.approx(once / 2)
    assert replace(ACCEPTANCE, run=ALONE).allowance() == 0


def test_part_of_another_shape_is_told() -> None:
    served = {**ACCEPTANCE.served, "head": ACCEPTANCE.served["head"][:-1]}
    verdict = broken(acceptance=replace(ACCEPTANCE, served=served))["acceptance.head_is_the_trained_one"]
    assert verdict.seen == "shape [11, 8]"


def test_chain_follows_the_best_of_each_context() -> None:
    proposals = np.array([[[10, 11], [20, 21], [0, 0], [30, 31], [0, 0], [0, 0], [0, 0]]])
    expected = Expected(
        prompt=2, text=(1, 2, 3, 10, 20, 99), proposals=proposals, margins=np.ones(proposals.shape)
    )
    assert expected.chain(3) == (10, 20, 30)
    assert expected.accepted(3) == 2
