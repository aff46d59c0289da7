"""Benchmarks of vbsvm against what scikit-learn offers; ``python -m benchmarks`` runs them."""
