"""Recorded surfaces as syrupy snapshots, places in `releases/<library>/<release>.json`.

syrupy decides when to read, write and compare; this module says where a record lies and what a difference
means.
No run ever deletes a record: discovery of unused snapshots is switched off for these files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.extensions.base import AbstractSyrupyExtension

from contracts import records
from contracts.surfaces import Shown, as_text, from_text, leaves, recorded
from contracts.verdict import Difference

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from contracts.sides import Side

MEANINGS = {
    "refusals": "the library refuses what it took before, takes what it refused, or says so otherwise",
    "targets": "a target class numbers its layers otherwise, came or went: ids may name other layers",
    "speculation": "a server that is told nothing drafts another number of tokens: accept lengths change",
    "server_options": "an option of the server came or went: commands that name it are refused, or may be",
    "config_defaults": "a draft config that says nothing means something else",
    "types": "a type of draft came or went",
    "spellings": "a draft that is written in this way is understood otherwise",
    "draft_classes": "a class that runs EAGLE-3 drafts came or went",
    "algorithms": "an algorithm of speculation came or went",
    "requires_python": "the release installs on other versions of Python",
    "architecture": "another class saves or runs the draft; code that names the class has to follow",
    "algorithm": "drafts already trained are run by another speculative algorithm, or named for another",
    "reads_target_state": "the draft became, or ceased to be, conditioned on the target's hidden states",
    "config_keys": "drafts already trained may carry keys not read any more, or lack some that are",
    "weight_names.names": "drafts already trained have tensors that are not read any more, or lack some",
    "weight_names.ignored": "tensors of drafts already trained are dropped now, or no longer dropped",
    "weight_names.unwritten": "the forward pass reads parameters that drafts already trained do not provide",
    "weight_names": "the draft is not loaded any more, or is now: see what is refused",
    "tensor_shapes": "the draft is not loaded any more, or is now: see what is refused",
    "aux_layers": "the target delivers nothing any more, or does now: see what is refused",
    "tensor_shapes.places": "tensors of drafts already trained fill another place",
    "tensor_shapes.dtypes": "tensors of drafts already trained are saved, or held, in another type",
    "tensor_shapes.shapes": "tensors of drafts already trained no longer fit, or fit elsewhere",
    "aux_layers.states": "drafts already trained get other layers of the target: expect lost acceptance",
    "aux_layers.layer_ids": "ids in drafts already trained are understood differently",
    "aux_layers.num_layers": "the recipe's target changed; this is about the suite, not about your drafts",
    "aux_layers.final_norm": "the delivered states are normed now, or no longer: expect lost acceptance",
    "vocab_map": "draft tokens of drafts already trained mean other target tokens: expect rejection",
    "hidden_dims.fc_applied": "the fusion projection is skipped now, or no longer: expect lost acceptance",
    "hidden_dims": "widths that drafts already trained were built for have changed",
    "norm_eps": "the norms of drafts already trained add another epsilon",
    "norms": "a norm of drafts already trained is applied now, or no longer: expect lost acceptance",
    "rope": "drafts already trained rotate by other angles: expect lost acceptance with distance",
    "attention.windows": "drafts already trained attend to another number of positions",
    "attention": "the attention of drafts already trained is computed differently",
    "compute": "drafts already trained are computed in another precision than before",
    "agrees_with_itself": "chained steps are trained as an engine runs them, or not any more",
    "sharing": "drafts already trained are served with another embedding or head",
}
"""What a difference means for drafts already trained, by the longest prefix that fits."""


class _SurfaceExtension(AbstractSyrupyExtension):
    """A place in the record of a release. Subclassed per place, because syrupy asks the class."""

    file_extension = "json"
    library = release = recipe = ""
    root = Path()
    packages: Mapping[str, str] = {}
    """Under which it is shown; recorded, and no part of what is compared."""

    def serialize(self, data: Any, **_: Any) -> str:
        """The stable text of what was shown."""
        return as_text(data)

    @classmethod
    def dirname(cls, *, test_location: Any) -> str:
        """Folder of the library."""
        return str(cls.root / cls.library)

    @classmethod
    def get_file_basename(cls, *, test_location: Any, index: Any) -> str:
        """The release."""
        return cls.release

    @classmethod
    def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
        """The file name is the release's, not the test's."""
        return True

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """What is recorded at this place; None if nothing is."""
        found = recorded(self.library, self.release, self.recipe, self.root)
        return None if found is None else as_text(found)

    @classmethod
    def write_snapshot_collection(cls, *, snapshot_collection: Any, **_: Any) -> None:
        """Put what was shown into the record of the release."""
        (snapshot,) = snapshot_collection
        shown = from_text(str(snapshot.data))

        def change(record: records.Record) -> records.Record:
            if not cls.recipe:
                return replace(record, traits=shown.traits, packages=cls.packages)
            facts = {**record.facts, cls.recipe: shown.facts}
            refusals = {**record.refusals, cls.recipe: shown.refusals}
            return replace(record, facts=facts, refusals=refusals)

        records.update(cls.library, cls.release, change, cls.root)

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """Asked for unused snapshots only, and there are none."""
        return SnapshotCollection(location=snapshot_location)

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """No record is ever deleted."""

    def discover_snapshots(self, **_: Any) -> SnapshotCollections:
        """Nothing is ever unused, so nothing is ever deleted."""
        return SnapshotCollections()


@dataclass(frozen=True, kw_only=True)
class SurfaceSnapshot:
    """The record that one side's surface for one recipe is compared with."""

    assertion: SnapshotAssertion
    library: str
    release: str
    recipe: str
    root: Path = records.RELEASES

    @property
    def name(self) -> str:
        """Which record it is, for people."""
        return f"{self.library} {self.release}, {self.recipe or 'the release'}"

    def matches(self, shown: Shown) -> bool:
        """Whether it is shown as recorded; with --snapshot-update, records it.

        A record written before a field was added counts as having its default.
        """
        return bool(self.assertion == shown) or self.recorded() == shown

    def recorded(self) -> Shown | None:
        """What is recorded, or None where there is no record yet."""
        return recorded(self.library, self.release, self.recipe, self.root)


def surface_snapshot(
    assertion: SnapshotAssertion, side: Side, recipe: str, *, update: bool, root: Path = records.RELEASES
) -> SurfaceSnapshot:
    """The record for `side`: its own release's when updating or where there is one, else the newest older."""
    release = side.version if update else records.baseline(side.library, side.version, root) or side.version
    place: dict[str, Any] = {"library": side.library, "release": release, "recipe": recipe, "root": root}
    extension = type("SurfaceExtension", (_SurfaceExtension,), place | {"packages": side.identity.packages})
    return SurfaceSnapshot(assertion=assertion.use_extension(extension), **place)


def differences(before: Shown | None, seen: Shown) -> list[Difference]:
    """Every leaf in which two surfaces differ, and what that means."""
    if before is None:
        meaning = "there is no record to compare with; record it with --snapshot-update"
        return [Difference(path="(surface)", recorded="nothing", seen="a surface", meaning=meaning)]
    return list(_compare(leaves(before), leaves(seen)))


def _compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        if isinstance(before, list) and isinstance(after, list):
            before, after = _distinct(before, after)
        yield Difference(path=path, recorded=_short(before), seen=_short(after), meaning=meaning_of(path))


def meaning_of(path: str) -> str:
    """What a difference at `path` means for drafts already trained."""
    fitting = [prefix for prefix in MEANINGS if path == prefix or path.startswith(prefix + ".")]
    return MEANINGS[max(fitting, key=len)] if fitting else "the surface changed here"


def _distinct(one: list[Any], other: list[Any]) -> tuple[list[Any], list[Any]]:
    """What each list has and the other lacks; both whole if they differ in order or repetition only."""
    only_one = [item for item in one if item not in other]
    only_other = [item for item in other if item not in one]
    return (only_one, only_other) if only_one or only_other else (one, other)


def _short(value: Any) -> str:
    text = {None: "absent", "[]": "nothing"}.get(value if value is None else str(value), str(value))
    return text if len(text) <= 200 else text[:197] + "..."
