"""Which trials are stopped early."""
