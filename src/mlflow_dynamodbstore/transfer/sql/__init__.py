"""Moving between a table and a database of MLflow's own SQL stores.

An *entity* (an experiment, a run with all its data, a registered model) has the same plain values
in both: those of MLflow's database, without what MLflow derives or numbers itself. Each kind of
entity has an :class:`~mlflow_dynamodbstore.transfer.sql.entities.EntityStore` for the database and
one for the table. Importing, exporting and verifying only read, write and compare entities.
"""
