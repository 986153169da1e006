"""The mathematics of every kernel in plain PyTorch: any device, float32 or float64, members first."""
