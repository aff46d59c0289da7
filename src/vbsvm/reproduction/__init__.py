"""The paper's numerical experiments (Section 4), run again by ``vbsvm reproduce``: data, jobs, journal, claims with
their rules, and the page of results. It may import every other room, and no other room imports it: the command line
finds its command by name.
"""
