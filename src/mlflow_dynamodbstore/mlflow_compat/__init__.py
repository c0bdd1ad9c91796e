"""All that MLflow does not promise: its private names, and the functions of its that we replace.

Each name stands here once, with what we do in a release that lacks it: an equivalent of our own
where that is small, or else a placeholder that disables the one feature which needs the name. An
import never fails. The package imports nothing of ours.
"""

from __future__ import annotations

from mlflow_dynamodbstore.mlflow_compat.releases import warn_of_newer_release

warn_of_newer_release()
