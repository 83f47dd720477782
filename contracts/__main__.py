"""`python -m contracts` is the `contracts` command."""

from contracts.cli import main

main()
