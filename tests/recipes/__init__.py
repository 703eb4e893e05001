"""The recipes of CONTRIBUTING.md, each walked from its first step to what a user sees."""
