"""Comparisons of methods, hyperparameter tuning, and the cost of models before training."""
