"""Results for people: figures, and pages that work offline."""
