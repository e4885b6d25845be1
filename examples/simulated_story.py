"""
A study with a known truth
==========================

Which genes matter, how sure is that, and which labels are wrong? Here the answers are known: 200 simulated
genes in blocks of four near copies, three of which matter, 120 samples, and six labels turned over.
``study.py``, which the other examples use as well, makes such tables:

.. literalinclude:: ../../examples/study.py
   :start-at: TRUE =
"""

import matplotlib.pyplot as plt
from study import TRUE, study

from dilutron import EPClassifier

X, y, wrong = study(seed=5)
model = EPClassifier().fit(X, y)
print(f"{model.n_features_likely_} genes likely, {model.eta_:.0%} of the labels taken for right")

# %%
# Which genes? Two are all but certain. The third shares its probability with its near copies.

print("gene  P(matters)  coefficient, 90 % if it matters")
low, high = model.coef_interval(0.9)
for gene in model.selected(n_features_to_select=6):
    mark = " <- true" if gene in TRUE else ""
    span = f"{model.coef_[0, gene]:+.2f}  [{low[0, gene]:+.2f}, {high[0, gene]:+.2f}]"
    print(f"{gene:4d}  {model.inclusion_proba_[gene]:10.2f}  {span}{mark}")

# %%
# All genes at a glance, with the true ones in orange.

figure, ax = plt.subplots(figsize=(7.6, 2.4), layout="constrained")
colors = ["#D55E00" if gene in TRUE else "#0072B2" for gene in range(X.shape[1])]
ax.vlines(range(X.shape[1]), 0, model.inclusion_proba_, colors, linewidth=2)
ax.set(xlabel="gene", ylabel="P(matters)", ylim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The groups show what the single genes hide: one of these four matters.

print("P(one of these matters)")
for group in model.feature_groups(X, y, n_groups=5):
    mark = " <- true" if set(group.members.tolist()) & TRUE.keys() else ""
    print(f"{group.inclusion:.2f}  genes {sorted(group.members.tolist())}{mark}")

# %%
# Which labels? Most of those that were turned over are on the list for review, the surest first. The last two are
# right: of a list made with ``fdr=0.3`` three in ten are, on average. One is missing: it lies near the boundary,
# where a wrong label looks like a usual one.

print(f"labels to look at again ({len(wrong)} were turned over)")
suspects = model.suspect_labels(fdr=0.3)
for row, probability, given, suggested in zip(*suspects, strict=True):
    mark = " <- turned over" if row in wrong else ""
    print(f"sample {row:3d}: {given}, rather {suggested} (P = {probability:.2f}){mark}")
