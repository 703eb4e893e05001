"""Comparisons of methods, hyperparameter tuning, and what a model costs before it is trained."""
