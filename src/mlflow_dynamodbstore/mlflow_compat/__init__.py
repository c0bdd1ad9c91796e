"""All that MLflow does not promise: its private names, and the functions of its that we replace.

Each name stands here once, with what we do in a release that lacks it: an equivalent of our own
where that is small, or else a placeholder that disables the one feature which needs the name. An
import never fails. The package imports nothing of ours, and this module nothing at all: MLflow
loads it with the entry points at every start.
"""
