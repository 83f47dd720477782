"""Exports of the drafts of recipes, kept in the cache under what is written."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from contracts import export, kept, tensor_copy

MANIFEST = "manifest.json"


def draft(planned: export.Plan, cache: Path) -> Path:
    """The folder that holds the planned export, as far as the draft can be expressed."""
    place = cache / f"exported-{_key(planned)}"
    if _is_whole(place):
        os.utime(place)
    else:
        made = kept.in_progress(place)
        export.write(planned, made / "draft", force=True)
        (made / MANIFEST).write_text(json.dumps(kept.manifest(made)))
        kept.settle(made, place, _is_whole)
    return place / "draft"


def _key(planned: export.Plan) -> str:
    code = [Path(str(module.__file__)).read_bytes() for module in (export, tensor_copy)]
    digest = hashlib.sha256(b"".join(code))
    digest.update(kept.Contents().of(planned.source.path).encode())
    digest.update(json.dumps([dict(planned.config), dict(planned.renames)], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _is_whole(place: Path) -> bool:
    try:
        return kept.is_intact(place, json.loads((place / MANIFEST).read_text()))
    except (OSError, ValueError):
        return False
