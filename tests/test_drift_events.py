"""Every event that was read out of the sources is named by `contracts diff`, or it is said why not."""

from __future__ import annotations

import pytest

from contracts import records
from tests import drift_table
from tests.drift_events import EVENTS, Event

SHOWN = [event for event in EVENTS if event.why_not is None]


@pytest.mark.parametrize("event", SHOWN, ids=lambda event: event.name)
def test_event_is_named_between_the_releases_around_it(event: Event) -> None:
    found = drift_table.find(event)
    assert found, f"{event.path} does not differ for {event.recipe} between {event.old} and {event.new}"
    assert {change.consequence for change in found} == {event.consequence}


@pytest.mark.parametrize("event", SHOWN, ids=lambda event: event.name)
def test_releases_around_an_event_are_neighbours(event: Event) -> None:
    releases = records.recorded_releases(event.library)
    assert event.old is not None
    assert releases[releases.index(event.old) + 1] == event.new


def test_events_that_no_record_shows_say_why_and_nothing_else() -> None:
    for event in EVENTS:
        if event.why_not is not None:
            assert (event.old, event.new, event.path, event.consequence) == (None, None, None, None)


def test_page_is_up_to_date() -> None:
    assert drift_table.DOCUMENT.read_text(encoding="utf-8") == drift_table.table(EVENTS)
