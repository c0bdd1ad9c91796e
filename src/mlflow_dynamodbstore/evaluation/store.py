"""Everything that evaluation adds to the tracking store."""

from __future__ import annotations

from mlflow_dynamodbstore.evaluation.dataset_experiments import DatasetExperiments
from mlflow_dynamodbstore.evaluation.dataset_records import DatasetRecords
from mlflow_dynamodbstore.evaluation.dataset_search import DatasetSearch
from mlflow_dynamodbstore.evaluation.datasets import EvaluationDatasets
from mlflow_dynamodbstore.evaluation.issues import Issues
from mlflow_dynamodbstore.evaluation.online_scoring import OnlineScoring


class Evaluation(
    EvaluationDatasets, DatasetRecords, DatasetExperiments, DatasetSearch, OnlineScoring, Issues
):
    """Evaluation datasets, scorers and issues."""
