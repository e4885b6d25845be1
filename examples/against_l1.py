"""
Beside L1
=========

L1-penalised logistic regression is what most people use to select features; its strength is found by
cross-validation. Both see the same simulated tables, the first of which is :doc:`the study with a known truth
<simulated_story>`, and predict new samples with right labels.

The comparison is kind to dilutron: few strong genes and labels turned over at random are what its model
assumes, and L1 knows nothing of wrong labels. It says nothing about real tables; :doc:`the benchmarks
</benchmarks>` do.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from study import BLOCK, TRUE, study

from dilutron import EPClassifier

seeds = range(5, 10)
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

# %%
# L1 finds the true genes too, among many false ones: a penalty that predicts well is too weak to select well. A
# stricter rule, such as the strongest penalty within one standard error of the best, would choose fewer.

print(f"mean of {len(seeds)} studies with {len(TRUE)} true genes; accuracy and log loss on {len(fresh.y)} new samples")
print("                         chosen  true  near copies  false  accuracy  log loss")
for name, rows in results.items():
    print("{:23s}  {:6.1f}  {:4.1f}  {:11.1f}  {:5.1f}  {:8.3f}  {:8.3f}".format(name, *np.mean(rows, axis=0)))

# %%
# What L1 cannot say is how sure it is: a weight of moderate size may be a true gene, a near copy or chance, and
# there is neither a probability to tell them apart nor a list of labels to look at again.

print("the first study, by the size of L1's weights")
print("gene  L1 weight  P(matters) by EP")
kinds = np.array(["true" if g in TRUE else "near copy" if g // BLOCK in blocks else "false" for g in range(len(sure))])
for gene in np.argsort(-np.abs(weights))[:10]:
    print(f"{gene:4d}  {weights[gene]:+9.2f}  {sure[gene]:10.2f} <- {kinds[gene]}")

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for kind, color, look in (("false", "#999999", "o"), ("near copy", "#0072B2", "s"), ("true", "#D55E00", "D")):
    ax.plot(np.abs(weights)[kinds == kind], sure[kinds == kind], look, color=color, label=kind)
ax.set(xlabel="size of L1's weight", ylabel="P(matters) by EP", ylim=(-0.03, 1.03))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# And the labels:

first = np.argsort(-doubt)[: len(turned_over)]
print(f"EP's six most doubted labels: {np.isin(first, turned_over).sum()} were turned over. L1 has no such list.")
