"""Scorers as the stores keep them."""

from __future__ import annotations

import inspect
from typing import Any

from mlflow.entities import ScorerVersion
from mlflow.genai.scorers.online.entities import OnlineScorer

from mlflow_dynamodbstore.mlflow_compat.names import private_later

_ONLINE_FIELDS = frozenset(inspect.signature(OnlineScorer).parameters)


def _never(serialized_scorer: str) -> bool:
    """MLflow 3.15 lets guardrails run custom code, and so do we there."""
    del serialized_scorer
    return False


# Its module imports all scorers.
serialized_scorer_is_custom_code = private_later(
    "mlflow.genai.scorers.base", "_serialized_scorer_is_custom_code", _never
)


def serialized_scorer(scorer: ScorerVersion) -> str:
    """The text of a scorer, which has no public name."""
    return str(scorer._serialized_scorer)  # noqa: SLF001


def online_scorer(**fields: Any) -> OnlineScorer:
    """A scorer of live traces; MLflow 3.15 does not say which version it is."""
    return OnlineScorer(**{name: value for name, value in fields.items() if name in _ONLINE_FIELDS})
