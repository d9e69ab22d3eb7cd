"""The CPU backend: programs run by compiled kernels on all cores."""
