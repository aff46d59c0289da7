"""The paper's numerical experiments (Section 4), run again by ``python -m reproduction`` or ``make reproduce``.

Data, jobs, journal, claims with their rules, and the page of results. A part of the repository, not of the package.
"""
