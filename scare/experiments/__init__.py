"""What to fit and for whom: baselines and comparisons."""
