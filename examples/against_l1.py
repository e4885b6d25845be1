"""Beside L1-penalised logistic regression, where the truth is known: genes chosen, false ones, and new samples."""

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from study import BLOCK, TRUE, study

from dilutron import EPClassifier

seeds = range(5, 10)  # the first is that of simulated_story.py
fresh = study(seed=1000, n_samples=2000, n_wrong=0)
blocks = {gene // BLOCK for gene in TRUE}


# scikit-learn 1.8 spells L1 in a new way, and warns of the old one.
NEW = "use_legacy_attributes" in LogisticRegressionCV().get_params()
L1 = {"l1_ratios": (1,), "use_legacy_attributes": False} if NEW else {"penalty": "l1"}


def by_l1():
    """L1 with its strength by five-fold cross-validation."""
    search = LogisticRegressionCV(cv=5, solver="liblinear", scoring="neg_log_loss", random_state=0, **L1)
    return make_pipeline(StandardScaler(), search)


def judged(model, chosen):
    """Genes chosen; how many are true, near copies of true ones, or neither; and how well new samples are told."""
    true = sum(gene in TRUE for gene in chosen)
    near = sum(gene // BLOCK in blocks for gene in chosen) - true
    accuracy = accuracy_score(fresh.y, model.predict(fresh.X))
    return len(chosen), true, near, len(chosen) - true - near, accuracy, log_loss(fresh.y, model.predict_proba(fresh.X))


results = {"EP, selected()": [], "EP, selected(fdr=0.2)": [], "L1, by cross-validation": []}
for seed in seeds:
    X, y, wrong = study(seed)
    ep, l1 = EPClassifier().fit(X, y), by_l1().fit(X, y)
    results["EP, selected()"].append(judged(ep, ep.selected()))
    results["EP, selected(fdr=0.2)"].append(judged(ep, ep.selected(fdr=0.2)))
    results["L1, by cross-validation"].append(judged(l1, np.flatnonzero(l1[-1].coef_)))
    if seed == seeds[0]:
        weights, sure, doubt = l1[-1].coef_[0], ep.inclusion_proba_, ep.label_error_proba_
        turned_over = wrong

print(f"mean of {len(seeds)} studies with {len(TRUE)} true genes; accuracy and log loss on {len(fresh.y)} new samples")
print("                         chosen  true  near copies  false  accuracy  log loss")
for name, rows in results.items():
    print("{:23s}  {:6.1f}  {:4.1f}  {:11.1f}  {:5.1f}  {:8.3f}  {:8.3f}".format(name, *np.mean(rows, axis=0)))

print("\nthe first study, by the size of L1's weights")
print("gene  L1 weight  P(matters) by EP")
for gene in np.argsort(-np.abs(weights))[:10]:
    mark = " <- true" if gene in TRUE else " <- near copy" if gene // BLOCK in blocks else ""
    print(f"{gene:4d}  {weights[gene]:+9.2f}  {sure[gene]:10.2f}{mark}")
first = np.argsort(-doubt)[: len(turned_over)]
print(f"\nEP's six most doubted labels: {np.isin(first, turned_over).sum()} were turned over. L1 has no such list.")
