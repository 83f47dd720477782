"""Runs in a serving interpreter: the GPU tier as far as a machine without a GPU can tell.

`lines FILE`: which of the command lines in FILE the release takes. `observe FILE`: the engine at a case,
watched as if no hook of the draft were called, which is so where its passes are replayed from CUDA graphs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("entry", ROOT / "contracts" / "probes" / "__main__.py")
assert spec is not None
assert spec.loader is not None
entry = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entry)
entry.expose_package()

from contracts.probes import sglang as probe  # noqa: E402
from contracts.probes.stream import Refusals  # noqa: E402

imported = sorted(name for name in sys.modules if name.partition(".")[0] in ("sglang", "transformers"))
probe.setup("cpu")

from contracts.probes import machine, sglang_engine, sglang_scheduler  # noqa: E402


def command_lines(settings: dict[str, tuple[bool, list[str]]]) -> dict[str, object]:
    """What the release's own parser makes of the arguments of the tier."""
    import argparse

    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    taken, refused = [], {}
    for name, (graphs, arguments) in settings.items():
        line = ["--model-path", "x", *sglang_scheduler.arguments("cuda", graphs=graphs), *arguments]
        try:
            _, unknown = parser.parse_known_args(line)
            if unknown:
                raise ValueError(f"unknown: {unknown}")
            taken.append(name)
        except Exception as error:
            refused[name] = str(error)
    return {"taken": taken, "refused": refused}


asked = json.loads(Path(sys.argv[2]).read_text())
if sys.argv[1] == "observe":
    sglang_engine.Watch._watch_model = lambda self: None  # type: ignore[method-assign]
    sglang_engine.observe(asked, Refusals())
else:
    print(
        json.dumps(
            {
                **command_lines(asked),
                "backends": machine.attention_backends(),
                "imported_before_setup": imported,
            }
        )
    )
