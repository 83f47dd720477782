"""Recorded surfaces: what a release shows at the interface is what was recorded for it.

A release without a record is compared with the newest older one, so an upgrade shows what drifted.
"""

import pytest

from contracts.facts import DraftFacts, SideName
from contracts.recipes import Recipe
from contracts.snapshots import SurfaceSnapshot, differences
from contracts.verdict import Changed
from contracts.workbench import Workbench

pytestmark = pytest.mark.contracts


def test_surface_is_as_recorded(
    draft_facts: DraftFacts,
    surface_snapshot: SurfaceSnapshot,
    workbench: Workbench,
    side: SideName,
    recipe: Recipe,
) -> None:
    """The side shows what is recorded for its release, or for the newest release before it."""
    if not surface_snapshot.matches(draft_facts):
        found = differences(surface_snapshot.recorded(), draft_facts)
        raise Changed(found, record=surface_snapshot.name)
