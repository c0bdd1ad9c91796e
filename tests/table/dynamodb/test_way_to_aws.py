"""What lies between us and AWS: clocks, credentials, addresses, proxies, certificates, networks.

A local server answers as AWS does.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import shutil
import socket
import ssl
import subprocess
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.credentials import Credentials, RefreshableCredentials

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine, table_definition
from mlflow_dynamodbstore.table.errors import AccessDenied, Unavailable
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Key
from tests.table.dynamodb.scripted import Answer, error, scripted

KEY = Key("p", "s")
DEFINITION = table_definition(MLFLOW_TABLE, "mlflow")
FOUND = {"Item": {"PK": {"S": "p"}, "SK": {"S": "s"}}}
VARIABLES = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
    *("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_PROFILE", "AWS_SESSION_TOKEN"),
    *("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy"),
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials, and nothing else of AWS."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def on_aws(**options):
    return DynamoDBEngine("mlflow", MLFLOW_TABLE, region="eu-west-1", **options)


# --- clocks -------------------------------------------------------------------------------------


def signed_at(headers: dict[str, str]) -> float:
    moment = dt.datetime.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")  # noqa: DTZ007
    return moment.replace(tzinfo=dt.timezone.utc).timestamp()


@pytest.mark.parametrize("code", ["InvalidSignatureException", "RequestTimeTooSkewed"])
@pytest.mark.parametrize("off", [-3600, 7200])
def test_a_wrong_clock_is_noticed_and_the_request_repeated_once(code, off, caplog):
    """The time of the refusal is taken for it and for all that follow; the log says so."""

    def answer(*_):
        there = time.time() + off
        if abs(signed_at(script.headers[-1]) - there) > 300:
            told = error(code, "Signature expired: ...", 400)
            told.headers["Date"] = formatdate(there, usegmt=True)
            return told
        return Answer(FOUND)

    with scripted(answer) as script, caplog.at_level(logging.WARNING):
        engine = script.engine()
        assert engine.get(KEY) == {"PK": "p", "SK": "s"}
        assert len(script.requests) == 2
        assert "clock is off" in caplog.text
        engine.get(KEY)
        assert len(script.requests) == 3
        engine.close()


def test_a_table_is_opened_with_a_wrong_clock(caplog):
    """The first request of a process learns the time for all, and `doctor` gets it."""

    def answer(operation, _):
        there = time.time() + 7200
        if abs(signed_at(script.headers[-1]) - there) > 300:
            told = error("InvalidSignatureException", "Signature expired: ...", 400)
        elif operation == "DescribeTable":
            told = Answer({"Table": {**DEFINITION, "TableStatus": "ACTIVE"}})
        else:
            told = Answer({"Item": FOUND["Item"]})
        told.headers["Date"] = formatdate(there, usegmt=True)
        return told

    with scripted(answer) as script, caplog.at_level(logging.WARNING):
        engine = script.engine()
        engine.prepare(create=False)
        assert "clock is off" in caplog.text
        assert engine.get(KEY) == {"PK": "p", "SK": "s"}
        assert len(script.requests) == 3
        there = engine.state().endpoint_time
        assert there is not None
        assert abs(there - time.time() - 7200) < 60
        engine.close()


def test_threads_that_find_a_wrong_clock_at_once_all_repeat_their_request(caplog):
    """Also the one that is refused after another has learned the time."""

    def answer(*_):
        there = time.time() + 7200
        if len(script.requests) > 1:
            return Answer(FOUND)
        transport: Any = engine._connected().transport
        transport._signer.skew = 7200  # by another thread, while this request is under way
        told = error("RequestTimeTooSkewed", "late", 403)
        told.headers["Date"] = formatdate(there, usegmt=True)
        return told

    with scripted(answer) as script, caplog.at_level(logging.WARNING):
        engine = script.engine()
        assert engine.get(KEY) is not None
        assert len(script.requests) == 2
        assert not caplog.text  # the other has said it
        engine.close()


def test_a_wrong_key_is_not_taken_for_a_wrong_clock():
    """The same code with the right time is an error at once."""

    def answer(*_):
        told = error("InvalidSignatureException", "does not match", 400)
        told.headers["Date"] = formatdate(time.time(), usegmt=True)
        return told

    with scripted(answer) as script:
        engine = script.engine()
        with pytest.raises(AccessDenied, match="does not match"):
            engine.get(KEY)
        assert len(script.requests) == 1
        engine.close()


def test_a_refusal_without_a_time_is_an_error_at_once():
    with scripted(lambda *_: error("RequestTimeTooSkewed", "late", 403)) as script:
        script.date = "no date"
        engine = script.engine()
        with pytest.raises(AccessDenied):
            engine.get(KEY)
        assert len(script.requests) == 1
        engine.close()


# --- credentials --------------------------------------------------------------------------------


def refreshing(lasting: float, renew) -> botocore.session.Session:
    """A session whose credentials last so many seconds, and are renewed by a function."""

    def metadata():
        number = renew()
        ends = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=lasting)
        return {
            "access_key": f"AKID{number}",
            "secret_key": f"secret{number}",
            "token": f"token{number}",
            "expiry_time": ends.isoformat(),
        }

    session = botocore.session.Session()
    session._credentials = RefreshableCredentials.create_from_metadata(
        metadata(), refresh_using=metadata, method="test"
    )
    return session


def test_credentials_that_expire_are_renewed():
    """Within ten minutes of their end every request asks for new ones, and is signed with them."""
    numbers = itertools.count(1)
    with scripted(lambda *_: Answer(FOUND)) as script:
        engine = script.engine(session=refreshing(300, lambda: next(numbers)))
        for _ in range(3):
            engine.get(KEY)
        tokens = [headers["X-Amz-Security-Token"] for headers in script.headers]
        assert len(set(tokens)) == 3
        for headers in script.headers:
            number = headers["X-Amz-Security-Token"].removeprefix("token")
            assert f"Credential=AKID{number}/" in headers["Authorization"]
        engine.close()


def test_credentials_that_last_are_kept():
    numbers = itertools.count(1)
    with scripted(lambda *_: Answer(FOUND)) as script:
        engine = script.engine(session=refreshing(3600, lambda: next(numbers)))
        for _ in range(3):
            engine.get(KEY)
        assert {headers["X-Amz-Security-Token"] for headers in script.headers} == {"token1"}
        engine.close()


def test_credentials_that_cannot_be_renewed_are_denied():
    """The error says so; nothing is sent with the old ones."""

    def renew():
        if next(numbers) > 1:
            raise botocore.exceptions.CredentialRetrievalError(provider="test", error_msg="gone")
        return 1

    numbers = itertools.count(1)
    with scripted(lambda *_: Answer(FOUND)) as script:
        engine = script.engine(session=refreshing(-1, renew))
        with pytest.raises(AccessDenied, match="gone"):
            engine.get(KEY)
        assert script.requests == []
        engine.close()


# --- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"])
@pytest.mark.parametrize("transport", ["direct", "botocore"])
def test_the_environment_may_name_the_endpoint(monkeypatch, name, transport):
    """A table on AWS is then looked for there; requests are signed for its own region."""
    with scripted(lambda *_: Answer(FOUND)) as script:
        monkeypatch.setenv(name, script.url)
        engine = on_aws(transport=transport)
        assert engine.get(KEY) is not None
        assert "/eu-west-1/dynamodb/" in script.headers[0]["Authorization"]
        assert engine.uri == "dynamodb://eu-west-1/mlflow"
        engine.close()


@pytest.mark.parametrize(
    ("variable", "host"),
    [
        ("", "dynamodb.eu-west-1.amazonaws.com"),
        ("AWS_USE_FIPS_ENDPOINT", "dynamodb-fips.eu-west-1.amazonaws.com"),
        ("AWS_USE_DUALSTACK_ENDPOINT", "dynamodb.eu-west-1.api.aws"),
    ],
)
def test_fips_and_dual_stack_addresses(monkeypatch, variable, host):
    """They are botocore's; both the client and our transport use them."""
    if variable:
        monkeypatch.setenv(variable, "true")
    engine = on_aws()
    connection = engine._connected()
    assert connection.client.meta.endpoint_url == f"https://{host}"
    assert connection.transport._url == f"https://{host}/"
    assert connection.transport._signer._host == host
    engine.close()


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("dynamodb.eu-west-1.amazonaws.com", "eu-west-1"),
        ("dynamodb-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("dynamodb.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("dynamodb.eu-central-1.api.aws", "eu-central-1"),
        ("vpce-0a-1b.dynamodb.us-west-2.vpce.amazonaws.com", "us-west-2"),
        ("123456789012.ddb.us-east-2.amazonaws.com", "us-east-2"),
        ("dynamodb.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
    ],
)
def test_an_address_of_aws_names_its_region(host, region):
    """It is reached with TLS, signed for its region, and a missing table is not created there."""
    location = parse(f"dynamodb://{host}/mlflow")
    assert (location.endpoint, location.region) == (f"https://{host}", region)
    assert location.is_aws
    assert not location.creates_itself
    assert parse(str(location)) == location
    assert parse(f"dynamodb://{host}/mlflow?region=us-east-1").region == "us-east-1"


# --- proxies and certificates -------------------------------------------------------------------


def test_a_proxy_is_used_and_can_be_left_out(monkeypatch):
    """As the environment says."""
    with scripted(lambda *_: Answer(FOUND)) as proxy, scripted(lambda *_: Answer(FOUND)) as script:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        away = DynamoDBEngine("mlflow", MLFLOW_TABLE, endpoint_url="http://far.example:8000")
        assert away.get(KEY) is not None
        assert proxy.headers[0]["Host"] == "far.example:8000"
        away.close()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        near = script.engine()
        near.get(KEY)
        assert (len(proxy.requests), len(script.requests)) == (1, 1)
        near.close()


def test_a_proxy_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    engine = DynamoDBEngine("mlflow", MLFLOW_TABLE, endpoint_url="http://far.example:8000")
    with pytest.raises(Unavailable, match="proxy") as raised:
        engine.apply(Put({"PK": "p", "SK": "s"}))
    assert not raised.value.maybe_applied
    engine.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody else knows, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_bundle_of_certificates_is_trusted(monkeypatch, certificate, name):
    """Without it nothing is sent, and the error says what to do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with scripted(lambda *_: Answer(FOUND), context) as script:
        engine = script.engine()
        with pytest.raises(Unavailable, match="AWS_CA_BUNDLE") as raised:
            engine.apply(Put({"PK": "p", "SK": "s"}))
        assert not raised.value.maybe_applied
        engine.close()
        monkeypatch.setenv(name, str(certificate[0]))
        engine = script.engine()
        assert engine.get(KEY) is not None
        assert len(script.requests) == 1
        engine.close()


# --- networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", ["1", "x"])
def test_a_damaged_answer_is_no_answer(checksum):
    """The checksum of DynamoDB tells; a write may have been applied, a read is repeated."""

    def answer(*_):
        told = Answer(FOUND)
        if len(script.requests) == 1:
            told.headers["x-amz-crc32"] = checksum
        return told

    with scripted(answer) as script:
        engine = script.engine()
        with pytest.raises(Unavailable) as raised:
            engine.apply(Put({"PK": "p", "SK": "s"}))
        assert raised.value.maybe_applied
        engine.close()
    with scripted(answer) as script:
        table = Table(script.engine(), retry=Retry(first_pause=0.001))
        assert table.get(KEY) == {"PK": "p", "SK": "s"}
        assert len(script.requests) == 2
        table.close()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_fails_is_asked_again(status):
    """Also when a gateway answers with a page instead of JSON."""

    def answer(*_):
        if len(script.requests) < 3:
            return Answer(b"<html>Bad Gateway</html>", status)
        return Answer(FOUND)

    with scripted(answer) as script:
        table = Table(script.engine(), retry=Retry(first_pause=0.001))
        assert table.get(KEY) is not None
        assert len(script.requests) == 3
        table.close()


def test_a_connection_that_was_closed_meanwhile_is_opened_again():
    """A server ends idle connections without a word; the next request does not fail for it."""
    with scripted(lambda *_: Answer(FOUND, hang_up=True)) as script:
        engine = script.engine()
        for _ in range(3):
            assert engine.get(KEY) is not None
            time.sleep(0.05)  # until the server has hung up
        assert len(script.requests) == 3
        engine.close()


def test_a_connection_that_was_reset_is_an_answer_lost():
    """A gateway that forgot a connection resets it: a read is repeated on a new one."""
    with scripted(lambda *_: Answer(FOUND, reset=len(script.requests) == 2)) as script:
        table = Table(script.engine(), retry=Retry(first_pause=0.001))
        assert table.get(KEY) is not None
        assert table.get(KEY) is not None
        assert len(script.requests) == 3
        table.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this system has no such option")
def test_an_idle_connection_is_kept_alive():
    """Gateways of AWS forget a connection after 350 seconds without a packet."""
    with scripted(lambda *_: Answer(FOUND)) as script:
        engine = script.engine()
        engine.get(KEY)
        transport: Any = engine._connected().transport
        pool = transport._http._manager.connection_from_url(script.url)
        sock = pool.pool.get_nowait().sock
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 350
        engine.close()


def test_a_key_in_the_environment_may_end_with_a_newline(monkeypatch):
    """What was read from a file often does; a token with one cannot be a header."""
    session = botocore.session.Session()
    session._credentials = Credentials("AKID", "secret", "token\n")
    with scripted(lambda *_: Answer(FOUND)) as script:
        engine = script.engine(session=session)
        assert engine.get(KEY) is not None
        assert script.headers[0]["X-Amz-Security-Token"] == "token"
        engine.close()
