"""A study with a known truth: 120 samples, 200 genes in blocks of four near copies, and six labels that are wrong."""

import numpy as np

from dilutron.estimators import EPClassifier

rng = np.random.default_rng(5)
n_samples, n_blocks = 120, 50
common = np.repeat(rng.standard_normal((n_samples, n_blocks)), 4, axis=1)
X = np.sqrt(0.85) * common + np.sqrt(0.15) * rng.standard_normal(common.shape)
truth = {0: 2.5, 17: -2.0, 42: 2.0}  # genes that matter, in three blocks
field = sum(weight * X[:, gene] for gene, weight in truth.items())
ill = field + 0.5 * rng.standard_normal(n_samples) > 0
wrong = rng.choice(n_samples, 6, replace=False)
ill[wrong] = ~ill[wrong]
y = np.where(ill, "ill", "healthy")

model = EPClassifier().fit(X, y)
print(f"about {model.rho_ * X.shape[1]:.1f} genes expected, {model.eta_:.0%} of the labels taken for right\n")

print("gene  P(matters)  coefficient, 90 % if it matters")
low, high = model.coef_interval(0.9)
for gene in model.selected(n_features_to_select=6):
    mark = " <- true" if gene in truth else ""
    span = f"{model.coef_[0, gene]:+.2f}  [{low[0, gene]:+.2f}, {high[0, gene]:+.2f}]"
    print(f"{gene:4d}  {model.inclusion_proba_[gene]:10.2f}  {span}{mark}")

print("\ngroups: P(one of these matters)")
for group in model.feature_groups(X, y, n_groups=5):
    mark = " <- true" if set(group.members.tolist()) & truth.keys() else ""
    print(f"{group.inclusion:.2f}  genes {sorted(group.members.tolist())}{mark}")

print("\nlabels to look at again")
suspects = model.suspect_labels(fdr=0.3)
for row, probability, given, suggested in zip(*suspects, strict=True):
    mark = " <- turned over" if row in wrong else ""
    print(f"sample {row:2d}: {given}, rather {suggested} (P = {probability:.2f}){mark}")
