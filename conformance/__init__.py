"""What MLflow's own test suite needs to run against our stores."""
