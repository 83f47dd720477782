"""The command line. Thin: each command is a module of its own.

Exit statuses: 0 done and as promised, 1 not (a draft that cannot be expressed, an accept length too low), 2
bad input, a full disk or a server that cannot be measured, 130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from contracts import (
    __version__,
    acceptance_command,
    check_command,
    diff_command,
    export_command,
    matrix_command,
    prepare_command,
    provision_command,
)

app = typer.Typer(
    name="contracts",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check", epilog=check_command.EXAMPLES)(check_command.check)
app.command("export", epilog=export_command.EXAMPLES)(export_command.export_draft)
app.command("acceptance", epilog=acceptance_command.EXAMPLES)(acceptance_command.acceptance)
app.command("diff", epilog=diff_command.EXAMPLES)(diff_command.diff)
app.command("provision", epilog=provision_command.EXAMPLES)(provision_command.provision)
app.command("matrix", epilog=matrix_command.EXAMPLES)(matrix_command.matrix)
app.command("prepare", epilog=prepare_command.EXAMPLES)(prepare_command.prepare)

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
