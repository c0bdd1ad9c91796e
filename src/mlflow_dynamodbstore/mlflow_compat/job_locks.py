"""Locks of MLflow's two engines of jobs, in our table.

Huey's locks are files of one server; those of the second engine are rows of a SQL database. Here
both are leases, which all servers see and which end by themselves after a crash.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any
from uuid import uuid4

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.job_server import current_job, our_store, renewed
from mlflow_dynamodbstore.mlflow_compat.jobs import lease_seconds
from mlflow_dynamodbstore.mlflow_compat.server_settings import backend_uri, is_ours

TICK_SECONDS = 30
"""Of two servers whose periodic tasks come within this time, one does them."""


def huey_instance(utils: ModuleType, theirs: Callable[..., Any], instance_key: str) -> Any:
    """A queue of the first engine, with its locks in our table."""
    found = theirs(instance_key)
    if is_ours(backend_uri()):
        periodic = instance_key == vars(utils).get("HUEY_PERIODIC_TASKS_INSTANCE_KEY")
        make = functools.partial(_TableLock, rest_seconds=TICK_SECONDS if periodic else 0)
        found.instance.lock_task = make
    return found


class _TableLock:
    """Stands for huey's lock of a task. A lock for some time after a task keeps its next run away.

    The holder is a job, so a job that is run again after a crash passes its own lock.
    """

    def __init__(self, name: str, ttl: float | None = None, *, rest_seconds: float = 0):
        del ttl  # a lease ends by itself
        self._name = f"lock {name}"
        self._rest = rest_seconds
        self._held = threading.local()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return locked

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_raised: object) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take the lock, or raise huey's error."""
        leases = our_store().leases
        holder = current_job.get() or uuid4().hex
        lease = leases.acquire(self._name, holder, max(lease_seconds(), self._rest))
        if lease is None:
            exceptions = importlib.import_module("huey.exceptions")
            raise exceptions.TaskLockedException(f"{self._name} is held by another")
        renewal = renewed(lambda: leases.renew(lease, lease_seconds()), self._name)
        renewal.__enter__()
        self._held.lease, self._held.renewal = lease, renewal
        return True

    def release(self) -> None:
        """Give the lock up, or let it rest."""
        lease, renewal = self._held.lease, self._held.renewal
        renewal.__exit__(None, None, None)
        leases = our_store().leases
        rest = lease.acquired / 1000 + self._rest - time.time()
        if rest > 0:
            leases.renew(lease, rest)
        else:
            leases.release(lease)

    clear = release


def lock_manager(locks: ModuleType, theirs: Callable[..., Any], job_store: Any) -> Any:
    """The locks of the second engine: theirs for SQL databases, ours for our stores."""
    if not is_ours(backend_uri()):
        return theirs(job_store)
    return _LockManager(job_store, vars(locks)["JobLock"], vars(locks)["SchedulerLease"])


class _LockManager:
    """MLflow's ``JobLockManager`` on the leases of our store."""

    def __init__(self, store: Any, lock_type: Any, scheduler_type: Any):
        self._store = store
        self._lock_type = lock_type
        self._scheduler_type = scheduler_type

    def acquire_exclusive_lock(self, lock_key: str, job_id: str) -> Any:
        lease = self._store.locks.acquire(lock_key, job_id)
        if lease is None:
            return None
        return self._lock_type(lock_key=lock_key, job_id=job_id, acquired_at=lease.acquired)

    def release_exclusive_lock(self, job_lock: Any) -> None:
        self._store.locks.release(job_lock.lock_key, job_lock.job_id, job_lock.acquired_at)

    def acquire_scheduler_lease(self, lease_key: str, ttl_seconds: int) -> Any:
        _check_seconds(ttl_seconds)
        lease = self._store.leases.acquire(f"scheduler {lease_key}", uuid4().hex, ttl_seconds)
        return None if lease is None else self._scheduler(lease_key, lease, ttl_seconds)

    def renew_scheduler_lease(self, scheduler_lease: Any, ttl_seconds: int) -> Any:
        _check_seconds(ttl_seconds)
        key = scheduler_lease.lease_key
        held = self._store.leases.find(f"scheduler {key}")
        if held is None or held.acquired != scheduler_lease.acquired_at:
            return None
        name, holder = held.name, held.holder
        lease = self._store.leases.acquire(name, holder, ttl_seconds, instead_of=held)
        return None if lease is None else self._scheduler(key, lease, ttl_seconds)

    def _scheduler(self, key: str, lease: Any, seconds: int) -> Any:
        return self._scheduler_type(lease_key=key, acquired_at=lease.acquired, ttl_seconds=seconds)


def _check_seconds(ttl_seconds: int) -> None:
    if ttl_seconds <= 0:
        raise MlflowException.invalid_parameter_value(
            f"ttl_seconds must be greater than zero, got {ttl_seconds}"
        )
