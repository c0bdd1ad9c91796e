"""All that the tracking store offers about traces, gathered."""

from __future__ import annotations

from mlflow_dynamodbstore.traces.archival import TraceArchival
from mlflow_dynamodbstore.traces.assessments import Assessments
from mlflow_dynamodbstore.traces.correlation import Correlation
from mlflow_dynamodbstore.traces.deletion import TraceDeletion
from mlflow_dynamodbstore.traces.links import TraceLinks
from mlflow_dynamodbstore.traces.metrics import TraceMetrics
from mlflow_dynamodbstore.traces.reading import TraceReading
from mlflow_dynamodbstore.traces.retention import TraceRetention
from mlflow_dynamodbstore.traces.sessions import Sessions
from mlflow_dynamodbstore.traces.tags import TraceTags


class TraceStore(
    TraceReading,
    TraceTags,
    Assessments,
    TraceLinks,
    TraceDeletion,
    TraceRetention,
    TraceArchival,
    Sessions,
    TraceMetrics,
    Correlation,
):
    """Traces, with everything about them."""
