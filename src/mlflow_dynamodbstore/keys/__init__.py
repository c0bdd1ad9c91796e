"""Every key of the table and its indexes, as pure functions.

No other package builds or reads a key. A function named after an entity (``run_tag``) gives its
sort key; one that ends in ``_pk`` gives a partition key, one that ends in ``_key`` gives both.
Plurals (``run_tags``, ``RUNS``) are a :class:`~mlflow_dynamodbstore.keys.base.Range` to query. A
function that ends in ``_of`` is an inverse; it gives None for text that was cut to fit a key, and
the item holds the whole text in an attribute.

Each family of keys has a module, imported as ``run_keys``, ``trace_keys`` and so on. User text is
escaped (:mod:`~mlflow_dynamodbstore.keys.encoding`) before it enters a key. All patterns are
described in ``docs/schema.md``.
"""
