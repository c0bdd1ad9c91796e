"""Moving between a table and a database of MLflow's own SQL stores.

An *entity* (an experiment, a run with all that was logged to it, a registered model) is the same
plain values on both sides: what MLflow's database says, without what it derives or numbers for
itself. Each kind of entity has a *side* in the database and one in the table. Reading, writing and
comparing entities is all that importing, exporting and verifying take.
"""
