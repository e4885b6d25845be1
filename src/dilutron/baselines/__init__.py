"""The methods that EP is compared with. Each is an `init`, a pure `step` and a `solve`; none knows of an intercept."""
