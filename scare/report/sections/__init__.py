"""The sections of the report that are tables and words, each as HTML made of the run's own numbers."""
