"""A stand-in for uv: installs packages that are metadata and a module, from an index that a test writes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_SCRIPT = """#!{python}
import base64, hashlib, json, pathlib, re, sys
index = json.load(open({index!r}))
arguments = sys.argv[1:]
with open({index!r} + ".asked", "a") as log:
    log.write(json.dumps(arguments) + "\\n")
python = pathlib.Path(arguments[arguments.index("--python") + 1])
site = next((python.parent.parent / "lib").glob("python3*")) / "site-packages"
wanted = [word for word in arguments[arguments.index("--python") + 2:] if word != "--no-deps"]
if wanted[0] == "-r":
    wanted = [line for line in open(wanted[1]).read().split() if "==" in line]
for requirement in wanted:
    name = re.split(r"[<>=!~ ]", requirement)[0].replace("_", "-")
    found = index.get(requirement, index.get(name))
    if found is None:
        found = dict(version=requirement.partition("==")[2] or "1.0", requires=[])
    if "fails" in found:
        sys.stderr.write(found["fails"])
        sys.exit(1)
    module = site / name.replace("-", "_")
    module.mkdir(exist_ok=True)
    (module / "__init__.py").write_text("")
    folder = site / (name.replace("-", "_") + "-" + found["version"] + ".dist-info")
    folder.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", "Name: " + name, "Version: " + found["version"]]
    lines += ["Requires-Dist: " + line for line in found["requires"]]
    (folder / "METADATA").write_text("\\n".join(lines))
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).rstrip(b"=").decode()
    (folder / "RECORD").write_text(module.name + "/__init__.py,sha256=" + digest + ",0\\n")
"""


def fake_uv(folder: Path, index: dict[str, dict[str, object]]) -> Path:
    """Write a `uv` into `folder` that installs what `index` has, by requirement or by name."""
    folder.mkdir(parents=True, exist_ok=True)
    file, script = folder / "index.json", folder / "uv"
    file.write_text(json.dumps(index))
    script.write_text(_SCRIPT.format(python=sys.executable, index=str(file)))
    script.chmod(0o755)
    return script


def asked(script: Path) -> list[list[str]]:
    """What the stand-in was told, call by call."""
    log = Path(f"{script.parent / 'index.json'}.asked")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def first_on_path(script: Path) -> str:
    """A PATH on which the stand-in is found before anything else."""
    return f"{script.parent}{os.pathsep}{os.environ['PATH']}"
