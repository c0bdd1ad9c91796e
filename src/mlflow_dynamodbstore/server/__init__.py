"""The apps ``dynamodb`` and ``dynamodb-auth``: MLflow's own server, with shorter ways."""

from mlflow_dynamodbstore.mlflow_compat.prometheus import take_over_without_library

take_over_without_library()  # before anything imports MLflow's server
