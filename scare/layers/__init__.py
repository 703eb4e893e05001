"""Layers of SCARE and its ablations, trained with JAX. Each writes itself as plan steps (`steps`)."""
