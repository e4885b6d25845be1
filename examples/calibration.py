"""
Do the probabilities keep their word?
=====================================

If ten claims of 0.3 are made, three should come true. Ten studies like :doc:`the one with a known truth
<simulated_story>`, with new random numbers, show how far that holds.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from study import TRUE, study

from dilutron import EPClassifier

genes, labels = [], []  # for each study: the probabilities, and what is true
for seed in range(100, 110):
    X, y, wrong = study(seed)
    model = EPClassifier().fit(X, y)
    genes.append((model.inclusion_proba_, np.isin(np.arange(X.shape[1]), list(TRUE))))
    labels.append((model.label_error_proba_, np.isin(np.arange(len(y)), wrong)))

# %%
# Claims in ranges, and how many of each came true. The last line of each table counts the order alone.

EDGES = (0.0, 0.02, 0.05, 0.1, 0.3, 0.7, 1.0)


def bins(studies):
    """For each range of probabilities: how many there are, their sum, and how many came true."""
    claims, truths = np.concatenate(studies, axis=1)
    each = np.searchsorted(EDGES[1:-1], claims, side="right")
    return [np.bincount(each, what, len(EDGES) - 1) for what in (None, claims, truths)]


for name, studies in (("the gene matters", genes), ("the label is wrong", labels)):
    print(f"{name}\n  claimed       how many  expected true  came true")
    size, expected, came = bins(studies)
    for (low, high), n, claim, true in zip(pairwise(EDGES), size, expected, came, strict=True):
        print(f"  {low:.2f} to {high:.2f}  {n:8.0f}  {claim:13.1f}  {true:9.0f}")
    print(f"  all           {size.sum():8.0f}  {expected.sum():13.1f}  {came.sum():9.0f}")
    first = np.mean([true[np.argsort(-claim)[: true.sum()]].mean() for claim, true in studies])
    print(f"  of the most probable, as many as are true in each study: {first:.0%} true\n")

# %%
# Large claims hold, of genes and of labels. Small ones do not: the many small probabilities of genes add up to
# far more than come true, because the fit leaves room for more genes than there are. Doubts about labels err on
# the other side. Middling ones come true more often than they say, so a label with a doubt of 0.1 is worth a
# look. These tables have few, strong genes; with other tables the balance is another. The order is what can be
# relied on most.

figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.3), layout="constrained")
for ax, name, studies in zip(axes, ("the gene matters", "the label is wrong"), (genes, labels), strict=True):
    _, expected, came = bins(studies)
    places = np.arange(len(expected))
    ax.bar(places - 0.2, expected, 0.38, color="#0072B2", label="expected from the claims")
    ax.bar(places + 0.2, came, 0.38, color="#E69F00", hatch="//", edgecolor="white", label="came true")
    ax.set_xticks(places, [f"{low:g}\nto {high:g}" for low, high in pairwise(EDGES)], fontsize=8)
    ax.set_title(f"claim: {name}", fontsize=10)
    ax.set_xlabel("claimed probability", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("number, ten studies together", fontsize=9)
axes[0].legend(fontsize=8, frameon=False)
plt.show()
