"""The parts of the trainer that work on a CUDA device through fused kernels."""
