"""All that the tracking store offers about reviews, gathered."""

from __future__ import annotations

from mlflow_dynamodbstore.reviews.label_schemas import LabelSchemas


class ReviewStore(LabelSchemas):
    """What reviewers are asked, and about which traces."""
