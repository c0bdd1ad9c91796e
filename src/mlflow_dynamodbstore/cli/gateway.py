"""``gateway``: the secrets of the AI gateway."""

from __future__ import annotations

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, Group
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options


@click.group(cls=Group)
def gateway() -> None:
    """Change the passphrase of the secrets of the AI gateway."""


@gateway.command(
    "rotate-key",
    loads=MLFLOW,
    stopped="Stopped. Some secrets may have the new passphrase already; run the same command "
    "again to finish, before any server starts.",
)
@click.option(
    "--new-passphrase",
    prompt=True,
    hide_input=True,
    confirmation_prompt=True,
    help="The passphrase that servers use from now on.",
)
@pass_table_options
def rotate_key_(options: TableOptions, new_passphrase: str, json: bool) -> None:
    """Encrypt the keys of all secrets with a new passphrase.

    Stop the servers first. The old passphrase is read from MLFLOW_CRYPTO_KEK_PASSPHRASE. After an
    interruption, run the same command again to finish.
    """
    from mlflow.utils.crypto import CRYPTO_KEK_PASSPHRASE_ENV_VAR, CRYPTO_KEK_VERSION_ENV_VAR

    from mlflow_dynamodbstore.gateway.rotation import rotate_key

    if not new_passphrase:
        raise ValueError("the new passphrase is empty")
    table = options.table()
    with output.spinner("encrypting the keys of secrets"):
        count, version = rotate_key(table, new_passphrase)
    if json:
        output.as_json({"rotated": count, "version": version})
        return
    output.say(
        f"[bold]{count:,}[/] secrets changed. Start the servers with the new "
        f"{CRYPTO_KEK_PASSPHRASE_ENV_VAR} and with {CRYPTO_KEK_VERSION_ENV_VAR}={version}."
    )
