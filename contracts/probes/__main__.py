"""Entry of every probe: `python <this file> identify LIBRARY`, `machine LIBRARY` or `run LIBRARY REQUEST FD`.

Further `serve LIBRARY ARGUMENTS`, its own server with what stands in on a CPU, and
`widen SOURCE FOLDER WIDTH`, a model with wider heads.

It is started by path with the side's interpreter, where this package is not installed, so it makes the
package importable by hand. The folder of this file must not be on sys.path: `import sglang` would
find the probe instead of the library.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def expose_package() -> None:
    """Make `contracts` importable without putting its parent folder on sys.path."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    root = HERE.parent
    spec = importlib.util.spec_from_file_location(
        "contracts", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["contracts"] = package
    spec.loader.exec_module(package)


def main(arguments: list[str]) -> None:
    """Dispatch to what is asked."""
    expose_package()
    command, library, *rest = arguments
    if command == "identify":
        identity = importlib.import_module("contracts.probes.identity")
        print(json.dumps(identity.identify(library)))
    elif command == "serve":
        importlib.import_module(f"contracts.probes.{library}_server").main(rest)
    elif command == "widen":
        folder, width = rest
        importlib.import_module("contracts.probes.wide_heads").widen(Path(library), Path(folder), int(width))
    elif command == "machine":
        print(json.dumps(importlib.import_module("contracts.probes.machine").look()))
    else:
        request, descriptor = rest
        probe = importlib.import_module(f"contracts.probes.{library}")
        stream = importlib.import_module("contracts.probes.stream")
        stream.serve(probe, Path(request), int(descriptor))


if __name__ == "__mp_main__" and sys.argv[1] == "serve":  # a process that the server starts
    expose_package()
    importlib.import_module(f"contracts.probes.{sys.argv[2]}_server").prepare()
if __name__ == "__main__":
    main(sys.argv[1:])
