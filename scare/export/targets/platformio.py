"""A PlatformIO library, with an example that runs on this computer."""

from scare.export.c_library import Library, library

TARGET = library(
    "Write a PlatformIO library with an example that runs on this computer.",
    ("no2.scare --out lib/no2", "barkjohn-2021 --board esp8266 --out lib/pm25"),
    Library("platformio"),
)
