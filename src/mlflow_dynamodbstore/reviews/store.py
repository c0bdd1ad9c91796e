"""All that the tracking store offers about reviews, gathered."""

from __future__ import annotations

from mlflow_dynamodbstore.reviews.label_schemas import LabelSchemas
from mlflow_dynamodbstore.reviews.queue_items import ReviewItems


class ReviewStore(LabelSchemas, ReviewItems):
    """What reviewers are asked, and about which traces."""
