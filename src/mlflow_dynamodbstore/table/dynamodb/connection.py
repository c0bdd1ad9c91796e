"""The connection of a process to its endpoint: session, credentials, client and transport."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import botocore.session
from botocore.config import Config
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.loaders import create_loader
from botocore.utils import get_environ_proxies

from mlflow_dynamodbstore import __version__
from mlflow_dynamodbstore.table.dynamodb.signing import Signer
from mlflow_dynamodbstore.table.dynamodb.transport import (
    ClientTransport,
    DirectTransport,
    Transport,
)
from mlflow_dynamodbstore.table.location import Location

CONNECT_SECONDS = 5
READ_SECONDS = 20
KEEPALIVE_SECONDS = 60  # gateways forget a connection that has been idle for 350
_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]
if sys.platform == "linux":
    _SOCKET_OPTIONS += [
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS // 4),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    ]
_PRODUCT = f"mlflow-dynamodbstore/{__version__}"


@dataclass(frozen=True)
class Connection:
    """A client, the transport that was made from it, and the process that made them.

    Sockets do not survive a fork: a process that finds another ``pid`` here makes its own.
    """

    client: Any
    transport: Transport
    pid: int

    def close(self) -> None:
        self.client.close()
        self.transport.close()


@dataclass(frozen=True)
class Connector:
    """Makes connections to one location."""

    location: Location
    session: Any  # a botocore session; None: one from the environment, as usual
    max_connections: int
    transport: Literal["direct", "botocore"] = "direct"

    def connect(self) -> Connection:
        """A new connection. Raises botocore's exceptions, mostly for missing credentials."""
        session = self.session or _session(self.location)
        client = session.create_client(
            "dynamodb",
            region_name=self.location.region,
            endpoint_url=self.location.endpoint or None,
            config=self._config(),
        )
        if self.transport == "botocore":
            transport: Transport = ClientTransport(client)
        else:
            transport = self._direct(session, client)
        return Connection(client, transport, os.getpid())

    def _config(self) -> Config:
        return Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=self.max_connections,
            # The table retries, since it knows what may be repeated. Only the legacy mode checks
            # the checksum of an answer, and so notices half an answer.
            retries={"mode": "legacy", "total_max_attempts": 1},
            # The service checks requests; checking them here too doubles the time to build one.
            parameter_validation=False,
            tcp_keepalive=True,
            user_agent_extra=_PRODUCT,
        )

    def _direct(self, session: Any, client: Any) -> DirectTransport:
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        # The client has resolved these from the URI, the environment and configuration files.
        url, config = client.meta.endpoint_url.rstrip("/") + "/", client.meta.config
        verify = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
        http = URLLib3Session(
            verify=verify or True,
            proxies=get_environ_proxies(url) if config.proxies is None else config.proxies,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            max_pool_connections=self.max_connections,
            socket_options=_SOCKET_OPTIONS,
            client_cert=config.client_cert,
            proxies_config=config.proxies_config,
        )
        signer = Signer(credentials, client.meta.region_name, url)
        return DirectTransport(http, signer, url, f"{session.user_agent()} {_PRODUCT}")


def _session(location: Location) -> Any:
    session = botocore.session.get_session()
    data_path = session.get_config_variable("data_path")
    session.register_component("data_loader", _loader(data_path))
    if location.is_aws:
        return session
    # An emulator accepts any credentials. Looking for the metadata service of a machine that has
    # none would take seconds.
    session.get_component("credential_provider").remove("iam-role")
    if session.get_credentials() is None:
        session.set_credentials("local", "local")
    return session


@cache
def _loader(data_path: str | None) -> Any:
    """The service models, read from disk once: that takes six times as long as making a client."""
    return create_loader(data_path)
