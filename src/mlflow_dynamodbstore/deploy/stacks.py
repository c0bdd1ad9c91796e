"""CloudFormation stacks: creating, updating and removing them, and watching their events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from mlflow_dynamodbstore.deploy.cleanup_schedule import IMAGE
from mlflow_dynamodbstore.deploy.template import template
from mlflow_dynamodbstore.table.errors import AccessDenied, TableError, Unavailable

PAUSE = 2.0
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "InvalidClientTokenId",
    "UnauthorizedOperation",
}


class StackFailed(TableError):
    """A stack could not be created, updated or removed."""


@dataclass(frozen=True)
class Event:
    """One line of a stack's progress."""

    resource: str
    status: str
    reason: str = ""

    @property
    def is_failure(self) -> bool:
        return "FAILED" in self.status or "ROLLBACK" in self.status


class Stack:
    """The stack of one table. ``deploy`` and ``destroy`` yield events until they have ended."""

    def __init__(
        self,
        stack: str,
        table: str,
        region: str,
        endpoint_url: str | None = None,
        *,
        client: Any = None,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.name = stack
        self._table = table
        self._client = client or boto3.client(
            "cloudformation", region_name=region, endpoint_url=endpoint_url
        )
        self._sleep = sleep

    def exists(self) -> bool:
        """Whether the stack exists."""
        return self._status() is not None

    def deploy(
        self, parameters: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Iterator[Event]:
        """Create the stack, or update it; parameters that are not given keep their values.

        ``body`` is another template than that of the table alone.
        """
        seen = self._seen()
        known, given = self.parameters(), parameters or {}
        image = {**(known or {}), **given}.get(IMAGE, "")
        made = template(self._table, cleanup_image=image) if body is None else body
        request: dict[str, Any] = {"TemplateBody": json.dumps(made)}
        if image or body is not None:
            request["Capabilities"] = ["CAPABILITY_IAM"]
            request["Parameters"] = _parameters(made["Parameters"], known or {}, given)
        if known is None:
            self._call(self._client.create_stack, **request)
            yield from self._watch(seen, ends="CREATE")
        elif self._update(request):
            yield from self._watch(seen, ends="UPDATE")

    def parameters(self) -> dict[str, str] | None:
        """The parameters that the stack has; None when there is no stack."""
        if (found := self._describe()) is None:
            return None
        return {one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", [])}

    def destroy(self) -> Iterator[Event]:
        """Remove the stack; its table stays."""
        seen = self._seen()
        self._call(self._client.delete_stack)
        yield from self._watch(seen, ends="DELETE")

    def _update(self, request: Mapping[str, Any]) -> bool:
        """Ask for an update; False when there is nothing to change."""
        try:
            self._call(self._client.update_stack, **request)
        except StackFailed as error:
            if "No updates are to be performed" in str(error):
                return False
            if "ROLLBACK_COMPLETE state" in str(error) and self._status() == "ROLLBACK_COMPLETE":
                raise StackFailed(
                    f"{error} Its creation failed: run `destroy` to remove the stack, then "
                    "`deploy` again"
                ) from error
            raise
        return True

    def _watch(self, seen: set[str], *, ends: str) -> Iterator[Event]:
        last: Event | None = None
        while True:
            status = self._status()
            for event in self._new_events(seen):
                last = event if event.is_failure and event.reason else last
                yield event
            if status is None or status == f"{ends}_COMPLETE":
                return
            if status.endswith(("_FAILED", "_COMPLETE")):
                reason = f": {last.reason}" if last else ""
                raise StackFailed(f"the stack {self.name} is {status}{reason}")
            self._sleep(PAUSE)

    def _status(self) -> str | None:
        found = self._describe()
        return None if found is None else str(found["StackStatus"])

    def _describe(self) -> dict[str, Any] | None:
        """The stack as CloudFormation describes it; None when there is none."""
        answer = self._ask(self._client.describe_stacks)
        found: dict[str, Any] = {} if answer is None else answer["Stacks"][0]
        return None if found.get("StackStatus") in (None, "DELETE_COMPLETE") else found

    def _seen(self) -> set[str]:
        return {event["EventId"] for event in self._events()}

    def _new_events(self, seen: set[str]) -> Iterator[Event]:
        for event in reversed(self._events()):
            if event["EventId"] not in seen:
                seen.add(event["EventId"])
                yield Event(
                    event["LogicalResourceId"],
                    event["ResourceStatus"],
                    event.get("ResourceStatusReason", ""),
                )

    def _events(self) -> list[dict[str, Any]]:
        answer = self._ask(self._client.describe_stack_events)
        return [] if answer is None else list(answer["StackEvents"])

    def _ask(self, function: Callable[..., Any]) -> dict[str, Any] | None:
        """The answer to a question about the stack; None if it does not exist."""
        try:
            return self._call(function)
        except StackFailed as error:
            if "does not exist" in str(error):
                return None
            raise

    def _call(self, function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = function(StackName=self.name, **arguments)
        except ClientError as error:
            raise _translated(error) from error
        except NoCredentialsError as error:
            raise AccessDenied(f"{error}; check them with `aws sts get-caller-identity`") from error
        except BotoCoreError as error:
            raise Unavailable(str(error)) from error
        return answer


def _parameters(
    declared: Mapping[str, Any], known: Mapping[str, str], given: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The parameters of a request: those given, and those of the stack that are no defaults."""
    kept = [
        name
        for name, value in known.items()
        if name in declared and name not in given and value != str(declared[name].get("Default"))
    ]
    return [
        *({"ParameterKey": name, "ParameterValue": given[name]} for name in sorted(given)),
        *({"ParameterKey": name, "UsePreviousValue": True} for name in sorted(kept)),
    ]


def _translated(error: ClientError) -> TableError:
    described = error.response.get("Error", {})
    kind = AccessDenied if described.get("Code") in _DENIED else StackFailed
    return kind(str(described.get("Message", error)))
