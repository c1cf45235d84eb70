"""The exception for errors that a user can correct."""


class UserError(Exception):
    """A bad input or option; the message names the value, the limit and the remedy.

    The command-line programs print the message without a traceback and exit with status 2.
    """

    def __str__(self) -> str:
        """Return the message in one line, whatever the values in it are."""
        return " ".join(super().__str__().split())
