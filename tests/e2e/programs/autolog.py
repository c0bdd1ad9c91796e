"""A scikit-learn script that logs nothing by hand."""

from __future__ import annotations

import mlflow
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

mlflow.set_experiment("autolog")
data, target = load_iris(return_X_y=True, as_frame=True)

mlflow.sklearn.autolog()
LogisticRegression(max_iter=300).fit(data, target)

mlflow.sklearn.autolog(log_models=False)
GridSearchCV(LogisticRegression(max_iter=300), {"C": [0.1, 1.0]}, cv=2).fit(data, target)
