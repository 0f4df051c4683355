"""What operations should give: plain numpy in float64, sharing nothing with the programs of the NPU.

Every function takes arrays of any float dtype and returns float64. Infinities and NaN
follow from the formulas.
"""
