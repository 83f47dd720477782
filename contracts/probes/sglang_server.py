"""sglang's own HTTP server on a machine without a GPU: `python -m contracts.probes.sglang_server ARGUMENTS`.

Arguments are those of `python -m sglang.launch_server`; what a CPU needs is set before them, so that any of
them overrides it. Every process that the server starts imports this module again, and with it the stand-ins.
"""

from __future__ import annotations

import sys

from contracts.probes import sglang as probe
from contracts.probes import sglang_scheduler


def main() -> None:
    """Serve until the process is ended."""
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import prepare_server_args

    launch_server(prepare_server_args([*sglang_scheduler.arguments("cpu"), *sys.argv[1:]]))


if __name__ in ("__main__", "__mp_main__"):
    probe.setup()
if __name__ == "__main__":
    main()
