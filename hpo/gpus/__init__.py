"""Which GPUs there are, which one a trial gets, and their memory."""
