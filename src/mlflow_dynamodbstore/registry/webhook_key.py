"""The key that secrets of webhooks are encrypted with."""

from __future__ import annotations

from mlflow.environment_variables import MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.encryption_keys import SecretKind
from mlflow_dynamodbstore.shared.refusals import invalid_state


def _webhook_key() -> bytes | None:
    text: str | None = MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.get()
    if not text:
        return None
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only where there is a key

    try:
        Fernet(text)
    except ValueError as error:
        raise invalid_state(
            f"{MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name} holds no key: it must be 32 bytes in "
            "URL-safe base64, as cryptography's Fernet.generate_key() makes them."
        ) from error
    return text.encode()


WEBHOOK = SecretKind(
    "webhook",
    MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name,
    _webhook_key,
    access_keys.WEBHOOKS,
    "secret",
    validate=_webhook_key,
)
