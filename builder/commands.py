"""Groups of commands, as all command lines of the project have them."""

from typing import Any

import click

from builder.errors import BuildError, of_file
from builder.terminal import plain

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Of a command line whose options show their defaults."""
_SENTENCE = 1000  # Longest first sentence of a help text, in characters.


class WholeHelp(click.Group):
    """Commands whose help is not cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their first sentences; lines are wrapped."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_SENTENCE))
                    for name, command in commands
                    if command is not None and not command.hidden
                ]
            )


class Group(WholeHelp):
    """Turns errors of builds and of files into one sentence and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BuildError as error:
            raise click.ClickException(plain(str(error))) from None
        except BrokenPipeError:
            raise  # Whoever read has enough, as `head`; click ends without a word.
        except OSError as error:
            raise click.ClickException(plain(of_file(error))) from None
        except click.UsageError:
            raise
        except click.ClickException as error:  # the text may be an OSM's or a VNF's
            raise click.ClickException(plain(error.message)) from error
