"""What to fit and for whom: yardsticks and comparisons."""
