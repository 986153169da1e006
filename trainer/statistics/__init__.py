"""Statistics of returns, one concept a file, in per-observation units unless a name says annualised.

A statistic that is not defined for its input is None, never NaN; an input that is not finite is an error.
"""
