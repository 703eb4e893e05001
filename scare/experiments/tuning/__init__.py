"""A preset's knobs searched for less error on forward folds, within what a board allows."""
