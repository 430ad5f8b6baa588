"""What a command group does when no command is given."""

from __future__ import annotations

import typer


def show_help_if_alone(context: typer.Context) -> None:
    """Show the help of a group if none of its commands was asked for."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
