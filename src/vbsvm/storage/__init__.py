"""How objects become files and come back without executing anything: the codec, the sealed archive, model files, the
names that files use for classes, and upgrades of older files. It may import base and the version, and knows no class
of the other packages: a file's classes are looked up by name when it is written or read.
"""
