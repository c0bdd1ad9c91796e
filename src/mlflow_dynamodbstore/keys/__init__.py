"""Every key of the table and its indexes, as pure functions.

Nothing else in the project builds or reads a key. Functions that name a thing (``run_tag``) give
its sort key; those ending in ``_pk`` a partition key, in ``_key`` both; plurals (``run_tags``) and
names in capitals give a :class:`~mlflow_dynamodbstore.keys.base.Range` to query. Functions ending
in ``_of`` are inverses; text that was too long for a key comes back as None, and the item holds it
in an attribute.

There is one module for each family of keys, imported as ``run_keys``, ``trace_keys`` and so on. All
user text is escaped (:mod:`~mlflow_dynamodbstore.keys.encoding`) before it enters a key. The list
of patterns is in :mod:`~mlflow_dynamodbstore.keys.patterns`, described in ``docs/schema.md``.
"""
