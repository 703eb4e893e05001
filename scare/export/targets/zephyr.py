"""A Zephyr module, with a sample."""

from scare.export.c_library import Library, library

TARGET = library(
    "Write a Zephyr module with a sample.",
    ("no2.scare --out modules/no2", "barkjohn-2021 --name pm25 --out modules/pm25"),
    Library("zephyr"),
)
