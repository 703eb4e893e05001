"""An Arduino library, with a sketch that reads a PMS5003 or a simulated sensor."""

from scare.export.c_library import Library, library

TARGET = library(
    "Write an Arduino library with a sketch that reads a PMS5003 or a simulated sensor.",
    (
        "pm.scare --out pm.zip",
        "pm.scare --arithmetic int8 --board nano33ble --out pm",
        "barkjohn-2021 --out pm25.zip",
    ),
    Library("arduino"),
)
