"""Commands that take groups of options, and the panels of `--help` for these groups."""

from typing import Annotated

import typer
from typer.testing import CliRunner

from laurels.cli.option_groups import OptionGroup, command

from .running import Shell

Name = Annotated[str, typer.Argument()]
Json = Annotated[bool, typer.Option("--json", rich_help_panel="Output")]


class Page(OptionGroup, frozen=True):
    limit: Annotated[int, typer.Option("--limit", "-n", rich_help_panel="What to read")] = 10
    label: Annotated[list[str] | None, typer.Option("--label", rich_help_panel="What to read")] = (
        None
    )


def _app(received: list[object]) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    @app.callback()
    def _program() -> None:
        pass

    @command(app, "top")
    def top(context: typer.Context, name: Name, page: Page, json: Json = False) -> int:
        """Show the top."""
        received.extend([context.command.name, name, page, json])
        return 0

    return app


def test_a_group_of_options_is_passed_as_one_object() -> None:
    received: list[object] = []
    arguments = ["top", "gifts", "-n", "3", "--label", "a=1", "--label", "b=2", "--json"]
    assert CliRunner().invoke(_app(received), arguments).exit_code == 0
    assert received == ["top", "gifts", Page(3, ["a=1", "b=2"]), True]


def test_options_that_are_left_out_have_the_defaults_of_the_group() -> None:
    received: list[object] = []
    CliRunner().invoke(_app(received), ["top", "gifts"])
    assert received == ["top", "gifts", Page(), False]


def test_help_has_a_section_for_each_panel() -> None:
    text = CliRunner().invoke(_app([]), ["top", "--help"]).output
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Arguments:", "What to read:", "Output:", "Options:"]
    before, _, after = text.partition("Output:")
    assert "--limit" in before
    assert "--json" in after


def test_the_help_of_import_has_its_panels_in_order(shell: Shell) -> None:
    text = shell.ok("import", "--help").out
    places = [
        text.index(f"\n{title}:\n")
        for title in ("File format", "Columns", "Time order", "Connection", "Output", "Options")
    ]
    assert places == sorted(places)
