"""Users, roles and grants: MLflow's auth store and the app ``dynamodb-auth``."""
