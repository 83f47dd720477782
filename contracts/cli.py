"""The command line. Thin: each command is a module of its own, imported when it is used.

Exit statuses: 0 done and as promised, 1 not (a draft that cannot be expressed, an accept length too low), 2
bad input, a full disk or a server that cannot be measured, 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from contracts import __version__

COMMANDS = {
    "check": ("contracts.check_command", "check"),
    "check-files": ("contracts.check_files_command", "check_files"),
    "explain": ("contracts.explain_command", "explain"),
    "reproduce": ("contracts.reproduce_command", "reproduce"),
    "gate": ("contracts.gate_command", "verdicts"),
    "export": ("contracts.export_command", "export_draft"),
    "acceptance": ("contracts.acceptance_command", "acceptance"),
    "diff": ("contracts.diff_command", "diff"),
    "provision": ("contracts.provision_command", "provision"),
    "matrix": ("contracts.matrix_command", "matrix"),
    "prepare": ("contracts.prepare_command", "prepare"),
    "ci": ("contracts.ci_command", "app"),
}
"""Name of each command, in the order of --help: its module, and the function or the group there."""
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Commands(TyperGroup):
    """The commands, each imported when it is asked for: a check starts in a quarter of a second."""

    def list_commands(self, _: Any) -> list[str]:
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, _: Any, cmd_name: str) -> Any:
        """A command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name]
        loaded = import_module(module)
        found = getattr(loaded, function)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
        alone.command(cmd_name, epilog=loaded.EXAMPLES)(found)
        return typer.main.get_command(alone)


app = typer.Typer(
    name="contracts",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)

Version = Annotated[bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)]


@app.callback(invoke_without_command=True)
def root(context: typer.Context, version: Version = False) -> None:
    """Contracts between the training and the serving of speculative-decoding drafts.

    The contracts themselves run with: pytest --pyargs contracts -m contracts
    """
    if version:
        typer.echo(f"draft-contracts {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Entry of the console script."""
    app()
