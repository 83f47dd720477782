"""Releases in few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def ranges(releases: Iterable[str], known: Sequence[str]) -> str:
    """Releases, neighbours among those that are known as a range: `0.5.6 to 0.5.9, 0.5.12`."""
    chosen, runs, before = set(releases), list[list[str]](), ""
    for release in known:
        if release in chosen and runs and runs[-1][-1] == before:
            runs[-1].append(release)
        elif release in chosen:
            runs.append([release])
        before = release
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
