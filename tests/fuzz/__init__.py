"""Fuzzers: hostile inputs by the thousand, each made from its number; what they found is kept in `findings`."""
