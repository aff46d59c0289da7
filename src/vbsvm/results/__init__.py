"""What a fit answers: coefficients on the user's scale, predictions, tables, draws, comparisons, text, and whether
the parts of a loaded fit agree. It may import inference, sources and everything below; ``Fit.report`` alone calls
upwards, when it is called.
"""
