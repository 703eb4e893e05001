"""A file of targets as a person writes one: hours, so that a short co-location has enough of them."""

HOURLY = """
[hourly]
title = "Hourly PM2.5"
as_of = 2026-11-18
source = "a test"
regression = "orthogonal"
completeness = 0.75
through_hours = true
temperature = 20.0
units = 2

[hourly.targets."PM2.5"]
unit = "ug/m3"
average_hours = 1
limit = 25.0

[hourly.targets."PM2.5".classes.good]
uncertainty = [0.0, 0.3]

[hourly.targets."PM2.5".classes.fair]
uncertainty = [0.0, 1.0]
"""
