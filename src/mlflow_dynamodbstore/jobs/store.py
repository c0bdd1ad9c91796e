"""The job store that MLflow sees: which part answers which call."""

from __future__ import annotations

from mlflow.store.jobs.abstract_store import AbstractJobStore

from mlflow_dynamodbstore.jobs.job_runs import JobRuns, Runner
from mlflow_dynamodbstore.jobs.jobs import Jobs
from mlflow_dynamodbstore.jobs.leases import Leases
from mlflow_dynamodbstore.jobs.locks import JobLocks
from mlflow_dynamodbstore.jobs.lost_jobs import LostJobs
from mlflow_dynamodbstore.jobs.status_changes import StatusChanges
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.face import answered_by
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.table.table import Table

NO_QUEUE = ""
"""Of a store outside a server: no job waits in it."""


class DynamoDBJobStore(AbstractJobStore):
    """MLflow's background jobs on one DynamoDB table, or on a file of the embedded engine."""

    supports_workspaces = True

    def __init__(
        self,
        store_uri: str,
        *,
        table: Table | None = None,
        queue: str | None = None,
        runner: Runner | None = None,
    ):
        """``queue`` names the queue of the server that the store belongs to, if it is one's."""
        self.table = table or open_table(store_uri)
        context = Context.on(self.table)
        self.status_changes = StatusChanges(context)
        self.job_runs = JobRuns(context, self.status_changes, queue, runner)
        self.jobs = Jobs(context, self.status_changes, queue)
        self.leases = Leases(context)
        self.lost_jobs = LostJobs(
            context, self.status_changes, self.jobs, self.leases, queue or NO_QUEUE
        )
        self.locks = JobLocks(context, self.status_changes, self.leases)

    create_job = answered_by(Jobs.create_job)

    # --- running --------------------------------------------------------------------------------

    claim_job = answered_by(JobRuns.claim_job)
    renew_job_lease = answered_by(JobRuns.renew_job_lease)
    retry_job = answered_by(JobRuns.retry_job)
    mark_job_needs_recovery = answered_by(JobRuns.mark_job_needs_recovery)
    reattach_job = answered_by(JobRuns.reattach_job)
    requeue_job = answered_by(JobRuns.requeue_job)
    report_job_result = answered_by(JobRuns.report_job_result)
    start_job = answered_by(JobRuns.start_job)
    reset_job = answered_by(JobRuns.reset_job)
    finish_job = answered_by(JobRuns.finish_job)
    mark_job_timed_out = answered_by(JobRuns.mark_job_timed_out)
    fail_job = answered_by(JobRuns.fail_job)
    retry_or_fail_job = answered_by(JobRuns.retry_or_fail_job)

    # --- reading, cancelling, reporting, deleting -----------------------------------------------

    list_jobs = answered_by(Jobs.list_jobs)
    get_job = answered_by(Jobs.get_job)
    cancel_job = answered_by(JobRuns.cancel_job)
    update_status_details = answered_by(Jobs.update_status_details)
    update_job_progress = answered_by(Jobs.update_job_progress)
    delete_jobs = answered_by(Jobs.delete_jobs)
