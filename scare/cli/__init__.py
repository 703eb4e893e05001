"""Thin commands over the rooms above, one file each."""

from scare.cli.application import main

__all__ = ["main"]
