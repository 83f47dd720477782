"""A stand-in for a side's interpreter: a script that answers as a probe would, or as a broken one does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from contracts.facts import PROTOCOL, SideIdentity, to_json

_SCRIPT = """#!{python}
import json, os, shutil, signal, subprocess, sys, time
plan = json.load(open({plan!r}))
if sys.argv[2] == "identify":
    sys.stdout.write(plan["identity"])
    sys.exit(plan.get("identify_status", 0))
if sys.argv[2] == "machine":
    sys.stdout.write(plan["machine"])
    sys.exit(0)
order = json.load(open(sys.argv[4]))
with open({plan!r} + ".runs", "a") as runs:
    runs.write(json.dumps(order) + "\\n")
out = os.fdopen(int(sys.argv[5]), "w", buffering=1)
print("a line of the log", flush=True)
for step in plan["steps"]:
    if step == "hang":
        time.sleep(600)
    elif step == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif step == "exit":
        sys.exit(3)
    elif step == "leave a child":
        child = subprocess.Popen(["sleep", "600"])
        with open({plan!r} + ".child", "w") as note:
            note.write(str(child.pid))
    elif step == "answers":
        for case in order["cases"]:
            if case["case"].startswith("deadly"):
                os.kill(os.getpid(), signal.SIGKILL)
            kind = case["case"].partition("/")[0] + "/*"
            answers = plan["answers"]
            answer = answers.get(case["case"]) or answers.get(kind) or answers.get("*")
            if answer is None:
                continue
            for source, place in plan["files"].items():
                if place in case and not answer.get("error"):
                    os.makedirs(os.path.dirname(case[place]), exist_ok=True)
                    if os.path.isdir(source):
                        shutil.copytree(source, case[place], dirs_exist_ok=True)
                    else:
                        shutil.copy(source, case[place])
                        tensors = os.path.splitext(source)[0] + ".safetensors"
                        if os.path.exists(tensors):
                            shutil.copy(tensors, os.path.splitext(case[place])[0] + ".safetensors")
            out.write(json.dumps({{"kind": "case", "case": case["case"], **answer}}) + "\\n")
    elif step == "end":
        out.write(json.dumps({{"kind": "end", "cases": len(order["cases"])}}) + "\\n")
    else:
        out.write(step + "\\n")
"""

ONE_GPU: dict[str, Any] = {
    "torch": "2.14.1",
    "gpus": [{"name": "a GPU", "capability": [9, 0], "memory": 80 << 30}],
    "backends": ["fa3", "flashinfer", "flashmla", "triton"],
}
HELLO = json.dumps({"kind": "hello", "protocol": PROTOCOL, "stand_ins": ["a stand-in"]})


def fake_python(
    folder: Path,
    library: str,
    *,
    version: str | None = "0.9.0",
    steps: tuple[str, ...] = (HELLO, "answers", "end"),
    answers: dict[str, Any] | None = None,
    identity: str | None = None,
    machine: dict[str, Any] | str = ONE_GPU,
    files: dict[str, Path] | None = None,
) -> Path:
    """Write an executable that stands for an interpreter with `library` in it.

    `answers` are by case, by kind (`exported/*`) or for all (`*`); `files` are copied to where a case with
    such a key names a place, and so are the tensors beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan, script = folder / "plan.json", folder / "python"
    identified = SideIdentity(
        library=library,
        version=version,
        python="3.11.7",
        executable=str(script),
        platform="test",
        packages={"torch": "2.13.0"},
        pins={"torch": "==2.14.1"},
        fingerprint=f"{library} {version}",
    )
    plan.write_text(
        json.dumps(
            {
                "identity": json.dumps(to_json(identified)) if identity is None else identity,
                "machine": machine if isinstance(machine, str) else json.dumps(machine),
                "steps": steps,
                "answers": answers or {},
                "files": {str(source): place for place, source in (files or {}).items()},
            }
        )
    )
    script.write_text(_SCRIPT.format(python=sys.executable, plan=str(plan)))
    script.chmod(0o755)
    return script


def orders(script: Path) -> list[dict[str, Any]]:
    """What the fake probe was asked, run by run."""
    log = script.parent / "plan.json.runs"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def runs(script: Path) -> int:
    """How often the fake probe was run."""
    return len(orders(script))
