"""What `contracts check` takes: time and memory, for drafts of any size. Run by hand.

    python benchmarks/check.py

Drafts are sparse files: what is not read need not be there. The command is started anew each time, as its
user does; the best of five is shown.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contracts import blank
from contracts.spellings import NEST, TARGET, decoder_layer

SIZES = {"2.4 GB": (5120, 13824, 128_256), "100 GB": (24_576, 540_000, 202_048)}
"""Hidden size, intermediate size and vocabulary of a draft of about so many bytes."""
DRAFT_VOCAB = 32_000


def main() -> None:
    started = best([sys.executable, "-c", "import contracts.check_command"])
    print(f"import of all that the command needs: {started[0]:.2f} s, {started[1]} MiB")
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in SIZES.items():
            draft, target = written(Path(folder) / name, *sizes)
            size = (draft / "model.safetensors").stat().st_size / 1e9
            for label, options in (("one release", []), ("all releases", ["--for", "all"])):
                command = [
                    sys.executable,
                    "-m",
                    "contracts",
                    "check",
                    str(draft),
                    "--target",
                    str(target),
                    *options,
                ]
                seconds, memory = best(command)
                print(f"check of {size:.1f} GB, {label}: {seconds:.2f} s, {memory} MiB")


def written(folder: Path, hidden: int, intermediate: int, vocab: int) -> tuple[Path, Path]:
    """A draft of these sizes, as SpecForge saves it, with an embedding; and its target."""
    heads = hidden // 128
    sizes = {
        "hidden_size": hidden, "intermediate_size": intermediate, "vocab_size": vocab, "head_dim": 128,
        "num_attention_heads": heads, "num_key_value_heads": heads // 4,
    }  # fmt: skip
    config = {
        **TARGET,
        **sizes,
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
        NEST: {"eagle_aux_hidden_state_layer_ids": [1, 15, 28], "use_aux_hidden_state": True},
    }
    shapes = {
        "q_proj": (hidden, 2 * hidden), "k_proj": (hidden // 4, 2 * hidden),
        "v_proj": (hidden // 4, 2 * hidden), "o_proj": (hidden, hidden),
    }  # fmt: skip
    mlp = {
        "gate_proj": (intermediate, hidden),
        "up_proj": (intermediate, hidden),
        "down_proj": (hidden, intermediate),
    }
    step = vocab // DRAFT_VOCAB
    ids = [at // 2 * 2 * step + at % 2 for at in range(DRAFT_VOCAB)]
    tensors = {
        "embed_tokens.weight": blank.weight(vocab, hidden),
        "fc.weight": blank.weight(hidden, 3 * hidden),
        **{name: blank.weight(hidden) for name in decoder_layer("midlayer", 1) if "layernorm" in name},
        "midlayer.hidden_norm.weight": blank.weight(hidden),
        "midlayer.input_layernorm.weight": blank.weight(hidden),
        **{f"midlayer.self_attn.{name}.weight": blank.weight(*shape) for name, shape in shapes.items()},
        **{f"midlayer.mlp.{name}.weight": blank.weight(*shape) for name, shape in mlp.items()},
        "norm.weight": blank.weight(hidden),
        "lm_head.weight": blank.weight(DRAFT_VOCAB, hidden),
        "d2t": blank.integers([target - draft for draft, target in enumerate(ids)]),
        "t2d": blank.flags(ids, vocab),
    }
    blank.write(folder / "draft", config, tensors)
    blank.write(folder / "target", {**TARGET, **sizes, "num_hidden_layers": 32}, {})
    return folder / "draft", folder / "target"


def best(command: list[str]) -> tuple[float, int]:
    """Seconds and MiB of the quickest of five runs."""
    runs = []
    for _ in range(5):
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = wait(process)
        runs.append((time.perf_counter() - started, usage.ru_maxrss // 1024))
    return min(runs)


def wait(process: subprocess.Popen[bytes]) -> tuple[int, int, resource.struct_rusage]:
    import os

    return os.wait4(process.pid, 0)


if __name__ == "__main__":
    main()
