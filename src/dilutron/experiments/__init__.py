"""The paper's experiments: trials make rows, a store keeps them, figures and comparisons read them."""
