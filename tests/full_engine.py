"""Answers prompts with the whole `sglang.Engine`, its processes included. Run as a program: CASE ANSWERS."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from contracts.probes import sglang as probe
from contracts.probes import sglang_scheduler


def main(case_file: str, answers: str) -> None:
    import sglang
    from sglang.srt.server_args import prepare_server_args

    case = json.loads(Path(case_file).read_text())
    engine_arguments = sglang_scheduler.arguments("cpu")
    arguments = prepare_server_args([*engine_arguments, "--skip-tokenizer-init", *case["server_args"]])
    engine = sglang.Engine(server_args=arguments)
    sampling = {"temperature": 0.0, "max_new_tokens": case["tokens"], "ignore_eos": True}
    found = engine.generate(input_ids=case["prompts"], sampling_params=sampling)
    Path(answers).write_text(json.dumps(found))
    engine.shutdown()


if __name__ in ("__main__", "__mp_main__"):  # a process that the engine starts needs the stand-ins too
    probe.setup()
if __name__ == "__main__":
    main(*sys.argv[1:])
