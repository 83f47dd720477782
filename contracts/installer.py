"""Makes environments and installs into them: with uv where it is found, else with pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

TIMEOUT = 3600.0
"""Seconds for one installation; a full environment of sglang is several gigabytes."""
_REASONS = (
    (
        re.compile(r"No space left on device|ENOSPC|[Dd]isk quota exceeded"),
        "the disk is full; `contracts provision --list` says what there is, `--prune --all` removes it",
    ),
    (
        re.compile(r"[Ff]ailed to fetch|error sending request|dns error|name resolution|Connection refused|"
                   r"Network is unreachable|Connection timed out|Read timed out|NewConnectionError"),
        "the package index cannot be reached",
    ),
    (
        re.compile(r"no wheels? with a matching|not a supported wheel|requires a different Python"),
        "it has no wheel for this Python or platform",
    ),
    (
        re.compile(r"no versions? of|No matching distribution|not found in the package registry"),
        "there is no such release, or none for this Python",
    ),
    (
        re.compile(r"[Ff]ailed to build|build backend|subprocess-exited-with-error|metadata-generation"),
        "it does not build here",
    ),
)  # fmt: skip
_FRAMES = re.compile("[\u00d7\u2500-\u257f\u25b6]")
"""Signs with which uv draws."""


class InstallFailed(Exception):
    """The installer gave up: what was to be installed, why, and its own last words. One line."""


def make_environment(folder: Path, python: str) -> Path:
    """An empty virtual environment of the interpreter `python`; returns its interpreter.

    Raises:
        InstallFailed: it cannot be made.

    """
    try:
        if Path(python) == Path(sys.executable):
            venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        else:
            command = [python, "-m", "venv", "--without-pip", str(folder)]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.CalledProcessError as error:
        raise InstallFailed(f"{python} makes no virtual environment: {_last_line(error.stderr)}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"a virtual environment in {folder}: {error}") from None
    return folder / "bin" / "python"


def install(python: Path, arguments: Sequence[str], what: str) -> None:
    """Install into the environment of `python`; `arguments` are requirements and options both tools know.

    Raises:
        InstallFailed: it went wrong, or there is neither uv nor pip.

    """
    command = [*_command(python), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{what}: {error}") from None
    if done.returncode:
        raise InstallFailed(f"{what}: {_reason(done.stderr or done.stdout)}")


def _command(python: Path) -> list[str]:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        raise InstallFailed("neither uv nor pip is here; install one: https://docs.astral.sh/uv")
    return [*pip, "--python", str(python), "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--ignore-installed"]  # fmt: skip


def _reason(output: str) -> str:
    """Why it failed, in our words where they are known, and the installer's own."""
    words = " ".join(_FRAMES.sub(" ", output).split())
    known = next((reason for pattern, reason in _REASONS if pattern.search(words)), None)
    own = words if len(words) <= 400 else f"{words[:200]} ... {words[-200:]}"
    return f"{known} ({own})" if known else own or "the installer failed without a word"


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["no output"])[-1]
