"""Where rows live: what every source has in common, rows in memory, and rows in several parts; and how encoded rows
become rows of a layout. A source turns numbered blocks of rows into sums. It may import missing, design, model and
whatever lies below, but never inference: what is done with the sums is not its concern.
"""
