"""Emitting kernels as LLVM IR: addresses, vectors, loops, dot products. Knows llvmlite, and not numba."""
