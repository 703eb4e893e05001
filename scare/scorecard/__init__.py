"""How a number is made and graded."""
