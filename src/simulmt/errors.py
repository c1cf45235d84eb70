"""The one exception for what a user can put right."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a bad choice: the message names the value, the limit and the remedy.

    The command-line programs print it without a traceback and exit with status 2.
    """
