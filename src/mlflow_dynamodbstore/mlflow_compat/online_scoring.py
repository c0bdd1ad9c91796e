"""Scoring each trace once in the background, also after a job that was killed.

MLflow notes how far a job has come only after it has scored all its traces. One that is killed
before leaves assessments behind, and the next begins where it had begun. So before a job scores a
trace it leaves out the scorers whose assessment the trace has.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.server_settings import backend_uri, is_ours

_logger = logging.getLogger(__name__)

PROCESSOR, EXECUTE = "OnlineTraceScoringProcessor", "_execute_scoring"
SCORER, VERSION_OF_SCORER = "mlflow.assessment.scorerName", "mlflow.assessment.scorerVersion"
SOURCE_RUN = "mlflow.assessment.sourceRunId"
PEOPLE = "HUMAN"


def replace_in_trace_processor(module: ModuleType) -> None:
    """Let ``mlflow.genai.scorers.online.trace_processor`` leave out what has been done."""
    processor = vars(module).get(PROCESSOR)
    execute = getattr(processor, EXECUTE, None)
    if processor is None or execute is None:
        _logger.warning(
            "In MLflow %s, which lacks %s.%s, a trace may be scored again after a job was killed.",
            VERSION,
            PROCESSOR,
            EXECUTE,
        )
        return
    setattr(processor, EXECUTE, _leaving_out(execute))


def _leaving_out(theirs: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(theirs)
    def execute_scoring(self: Any, tasks: Mapping[str, Any]) -> None:
        if is_ours(backend_uri()):
            for task in tasks.values():
                if task.trace is not None:
                    task.scorers = [s for s in task.scorers if not _has_scored(s, task.trace)]
        theirs(self, tasks)

    return execute_scoring


def _has_scored(scorer: Any, trace: Any) -> bool:
    return any(_is_by(scorer, assessment) for assessment in trace.info.assessments or ())


def _is_by(scorer: Any, assessment: Any) -> bool:
    """Whether an assessment is a scorer's own, and not an evaluation run's or a person's."""
    metadata = assessment.metadata or {}
    if SOURCE_RUN in metadata or assessment.source.source_type == PEOPLE:
        return False
    if SCORER not in metadata:  # MLflow 3.15 does not say whose an assessment is
        return bool(assessment.name == scorer.name)
    version = getattr(scorer, "scorer_version", None)
    return bool(metadata[SCORER] == scorer.name) and metadata.get(VERSION_OF_SCORER) == str(version)
