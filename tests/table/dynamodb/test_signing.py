"""Our signatures are botocore's."""

from __future__ import annotations

import datetime as dt

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mlflow_dynamodbstore.table.dynamodb.signing import Signer

TOKENS = [None, "a/session+token==", " blanks at the ends ", "doubled  blanks", "a tab\tand\n"]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "url",
    [
        "https://dynamodb.us-east-1.amazonaws.com/",
        "https://dynamodb.us-east-1.amazonaws.com:443/",
        "http://localhost:8000/",
        "http://[::1]:8000/",
        "https://proxy.example.com/dynamo db/v1/",
    ],
)
def test_the_signature_is_the_one_botocore_makes(url, token, monkeypatch):
    """Headers and signature agree, for every kind of endpoint and of credentials."""
    credentials = Credentials("AKIDEXAMPLE", "secret/Example+Key", token)
    body, target = '{"é": 1}'.encode(), "DynamoDB_20120810.GetItem"
    ours = Signer(credentials, "eu-west-1", url).headers(target, body)

    moment = dt.datetime.strptime(ours["X-Amz-Date"], "%Y%m%dT%H%M%SZ")  # noqa: DTZ007
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    headers = {"Content-Type": ours["Content-Type"], "X-Amz-Target": target}
    request = AWSRequest("POST", url, headers=headers, data=body)
    SigV4Auth(credentials, "dynamodb", "eu-west-1").add_auth(request)
    theirs = dict(request.headers.items())
    if token is not None:  # a server does not see blanks at the ends
        theirs["X-Amz-Security-Token"] = theirs["X-Amz-Security-Token"].strip()
    assert ours == theirs


def test_renewed_credentials_are_used_at_once():
    """A new secret makes a new signing key on the same day."""
    credentials = Credentials("first", "one")
    signer = Signer(credentials, "us-east-1", "http://localhost:8000/")
    before = signer.headers("t", b"{}")["Authorization"]
    credentials.access_key, credentials.secret_key, credentials.token = "second", "two", "token"
    after = signer.headers("t", b"{}")
    assert "Credential=first/" in before
    assert "Credential=second/" in after["Authorization"]
    assert after["X-Amz-Security-Token"] == "token"
    fresh = Signer(credentials, "us-east-1", "http://localhost:8000/")
    assert fresh._signing_key("20260101", "two") == signer._signing_key("20260101", "two")
