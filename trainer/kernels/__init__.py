"""Compiling and launching the CUDA kernels; importing this package needs no GPU."""
