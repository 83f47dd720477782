"""Recorded surfaces: what a release shows at the interface is what was recorded for it.

A release without a record is compared with the newest older one, so an upgrade shows what drifted.
"""

import pytest

from contracts.facts import SideName
from contracts.recipes import Recipe
from contracts.snapshots import SurfaceSnapshot, differences
from contracts.surfaces import Shown
from contracts.verdict import Changed
from contracts.workbench import Workbench

pytestmark = pytest.mark.contracts


def test_surface_is_as_recorded(
    surface_snapshot: SurfaceSnapshot, workbench: Workbench, side: SideName, recipe: Recipe
) -> None:
    """The side shows what is recorded for its release, or for the newest release before it."""
    shown = workbench.shown(side, recipe.name)
    if side == "serving" and not surface_snapshot.matches(shown):
        workbench.check_recorded_draft(recipe.name)
    _compare(surface_snapshot, shown)


def test_release_is_as_recorded(
    release_snapshot: SurfaceSnapshot, workbench: Workbench, side: SideName
) -> None:
    """Target classes, options and defaults of the release are those recorded."""
    _compare(release_snapshot, workbench.traits(side))


def _compare(snapshot: SurfaceSnapshot, shown: Shown) -> None:
    if not snapshot.matches(shown):
        raise Changed(differences(snapshot.recorded(), shown), record=snapshot.name)
