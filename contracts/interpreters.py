"""What an interpreter says of itself, asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from contracts.installer import InstallFailed


def package_paths(python: str) -> list[str]:
    """Where an interpreter keeps its packages.

    Raises:
        InstallFailed: it does not run.

    """
    code = (
        "import json, sysconfig; p = sysconfig.get_paths(); print(json.dumps([p['purelib'], p['platlib']]))"
    )
    return list(dict.fromkeys(_asked(python, code)))


def markers(python: str) -> dict[str, str]:
    """What environment markers are evaluated with, for the interpreter `python`.

    Raises:
        InstallFailed: it does not run.

    """
    code = (
        "import json, os, platform, sys; print(json.dumps({'os_name': os.name, 'sys_platform': sys.platform,"
        "'platform_machine': platform.machine(), 'platform_system': platform.system(),"
        "'python_version': '.'.join(platform.python_version_tuple()[:2]),"
        "'python_full_version': platform.python_version(),"
        "'platform_python_implementation': platform.python_implementation(),"
        "'implementation_name': sys.implementation.name}))"
    )
    return dict(_asked(python, code))


def _asked(python: str, code: str) -> Any:
    """What an interpreter prints as JSON.

    Raises:
        InstallFailed: it does not run.

    """
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InstallFailed(f"{python} does not run ({error})") from None
