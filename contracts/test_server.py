"""Server: the library's own HTTP server accepts over the wire what training promised.

It is started as a user starts it, asked over HTTP, and ended. On a CPU it runs with the stand-ins, on a GPU
as released, in bfloat16 and with the release's own choice of attention. `contracts.service` lists the ways.
"""

import math

import pytest

from contracts import acceptance
from contracts.acceptance import first_other
from contracts.acceptance_report import Promise
from contracts.handoff import NotRun, describe
from contracts.recipes import RECIPES, Recipe
from contracts.service import SERVINGS, Served, Serving
from contracts.verdict import Broken, Cause
from contracts.workbench import Workbench

STATISTICS = 0.02
"""By how much what a server states of itself may differ from its answers: it counts what is asked of it
meanwhile, too."""

pytestmark = [
    pytest.mark.contracts,
    pytest.mark.gpu,
    pytest.mark.server,
    pytest.mark.parametrize(
        "recipe", [pytest.param(item, id=item.name) for item in RECIPES if item.built_by == "trainer"]
    ),
    pytest.mark.parametrize("setting", [pytest.param(item, id=item.name) for item in SERVINGS]),
]


def test_server_answers(workbench: Workbench, recipe: Recipe, setting: Serving) -> None:
    """The server loads target and draft, and answers."""
    refusals = workbench.server_refusals(recipe.name, setting)
    if refusals:
        raise Broken(Cause.DRAFT_REFUSED, expected="no exception from the library", seen=describe(refusals))


def test_answers_are_those_of_the_target(served: Served) -> None:
    """The server generates, greedily, what transformers does."""
    for expected, generation in zip(served.expected, served.service.generations, strict=True):
        told = first_other(expected.text, generation)
        if told:
            raise Broken(Cause.OUTPUT_CHANGED, expected="the text that transformers generates", seen=told)


def test_accept_length_is_as_replayed(served: Served) -> None:
    """The accept length, by the server's own counts, is that of a replay with training's modules."""
    replayed, slack = served.replayed()
    seen = served.service.accept_length
    if not math.isclose(replayed, seen, abs_tol=slack):
        raise Broken(Cause.ACCEPT_LENGTH, expected=f"{replayed:.4f}", seen=f"{seen:.4f}")


def test_accept_length_is_the_same_one_by_one(served: Served) -> None:
    """Prompts that are asked one by one are accepted as if asked at once."""
    at_once, measured = served.service.accept_length, served.service.measured.accept_length
    if not math.isclose(at_once, measured, abs_tol=served.replayed()[1]):
        raise Broken(Cause.ACCEPT_LENGTH, expected=f"{at_once:.4f}, as at once", seen=f"{measured:.4f}")


def test_acceptance_is_what_training_promised(served: Served) -> None:
    """`contracts acceptance` finds the accept length that the trainer's accuracies promise."""
    promised = acceptance.promised(served.metrics)
    if promised is None:
        raise Broken(Cause.METRICS_MISSING, expected="full_acc_0 to full_acc_2", seen=sorted(served.metrics))
    due, seen = Promise(length=promised).due, served.service.measured.accept_length
    if seen < due:
        raise Broken(
            Cause.ACCEPT_LENGTH, expected=f"{promised:.2f} promised, at least {due:.2f}", seen=f"{seen:.2f}"
        )


def test_statistics_are_those_of_the_answers(served: Served) -> None:
    """The accept length that the server states of itself is that of its answers."""
    stated, seen = served.service.statistics, served.service.accept_length
    if stated is None:
        raise NotRun("the server states no accept length of its own")
    if abs(stated - seen) > STATISTICS:
        raise Broken(
            Cause.COUNTS_DIFFER, expected=f"{seen:.2f}, as counted with the answers", seen=f"{stated:.2f}"
        )


def test_nothing_outlives_the_server(served: Served) -> None:
    """A server that is asked to leave leaves no process behind."""
    if served.service.left:
        raise Broken(Cause.SERVER_LEFT, expected="nothing", seen=", ".join(served.service.left))
