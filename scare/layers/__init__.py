"""The paper's parts, trained with JAX."""
