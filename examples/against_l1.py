"""Beside L1-penalised logistic regression: accuracy, log loss, how many features, and how stable the choice."""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dilutron.estimators import EPClassifier

warnings.filterwarnings("ignore", category=ConvergenceWarning)
warnings.filterwarnings("ignore", category=FutureWarning)  # scikit-learn is renaming its own parameters
X, y = load_breast_cancer(return_X_y=True)
folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))


def lasso():
    """L1 with its strength by cross-validation."""
    path = LogisticRegressionCV(Cs=8, penalty="l1", solver="liblinear", cv=3, scoring="neg_log_loss")
    return make_pipeline(StandardScaler(), path)


def chosen(model):
    """The features that a fitted model selects."""
    return set(model.selected().tolist()) if isinstance(model, EPClassifier) else set(np.flatnonzero(model[-1].coef_))


def overlap(sets):
    """Mean share of features that two folds have in common."""
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[:i]]
    return np.mean([len(a & b) / len(a | b) for a, b in pairs])


print("                accuracy  log loss  features  overlap of two folds")
for name, make in (("EPClassifier", EPClassifier), ("L1 by CV", lasso)):
    accuracy, loss, sets = [], [], []
    for train, test in folds:
        model = make().fit(X[train], y[train])
        accuracy.append(accuracy_score(y[test], model.predict(X[test])))
        loss.append(log_loss(y[test], model.predict_proba(X[test])))
        sets.append(chosen(model))
    size = np.mean([len(s) for s in sets])
    print(f"{name:15s} {np.mean(accuracy):8.3f}  {np.mean(loss):8.3f}  {size:8.1f}  {overlap(sets):8.2f}")
