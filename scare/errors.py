"""Exceptions for users, each with an exit code of the command line.

Every message is for the person at the keyboard: what is wrong, where, and what to do.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every `scare` command (docs/exit-codes.md is checked against this)."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    DATA = 3
    REQUIREMENT_MISSED = 4
    CHECK_FAILED = 5
    DOES_NOT_FIT = 6
    UNREACHABLE = 7
    INTERRUPTED = 130


class ScareError(Exception):
    """Base of all errors whose message is meant for the user; anything else is a bug of ours."""

    exit_code = ExitCode.UNEXPECTED


class UsageError(ScareError):
    """The request itself cannot be carried out: a wrong option, an unwritable output, a missing optional package."""

    exit_code = ExitCode.USAGE


class DataError(ScareError):
    """A file or its content is not usable as it is."""

    exit_code = ExitCode.DATA


class NotApplicableError(DataError):
    """A method cannot be used on these data; a comparison shows the reason instead of a score."""


class DoesNotFitError(ScareError):
    """The model does not fit the board."""

    exit_code = ExitCode.DOES_NOT_FIT


class UnreachableError(ScareError):
    """A server or device did not answer; trying again later may work."""

    exit_code = ExitCode.UNREACHABLE
